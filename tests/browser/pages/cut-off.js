// A bundle whose download was cut off.
function save(order) { return order.total +
