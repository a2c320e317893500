// What a committed dashboard may hold: Grafana's own types, as their values stand in JSON. Grafana's `Dashboard` alone
// lets a misspelt panel type, option or query pass, so each panel's options and custom fields have their panel's type.
import type * as grafana from "@grafana/schema";
import type * as logs from "@grafana/schema/dist/esm/raw/composable/logs/panelcfg/x/LogsPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as states from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type { LokiDataQuery } from "@grafana/schema-of-queries/dist/esm/raw/composable/loki/dataquery/x/LokiDataQuery_types.gen";
import type { TempoQuery } from "@grafana/schema-of-queries/dist/esm/raw/composable/tempo/dataquery/x/TempoDataQuery_types.gen";

/** A type's values in JSON: of an enum its text or number. */
type Plain<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number
      ? `${T}` extends `${infer N extends number}`
        ? N
        : T
      : T extends boolean | null | undefined
        ? T
        : T extends readonly (infer Item)[]
          ? Plain<Item>[]
          : T extends object
            ? { [Key in keyof T]: Plain<T[Key]> }
            : T;

type Source = { type: "prometheus" | "loki" | "tempo"; uid: string };

/** A data link; the schema calls it unknown. */
type DataLink = { title: string; url: string; targetBlank: boolean };

/** Grafana ships no type of a Prometheus query: these are the keys that its editor writes. */
type PrometheusQuery = {
  refId: string;
  datasource: { type: "prometheus"; uid: string };
  expr: string;
  legendFormat: string;
  format: "time_series" | "table";
  instant: boolean;
  range: boolean;
  editorMode: "code";
};
type LokiQuery = Omit<Plain<LokiDataQuery>, "datasource" | "queryType"> & {
  datasource: { type: "loki"; uid: string };
  queryType: "range" | "instant";
};
type TraceQuery = Omit<Plain<TempoQuery>, "datasource" | "queryType"> & {
  datasource: { type: "tempo"; uid: string };
  queryType: "traceql";
};

type Transformation =
  | { id: "merge"; options: Record<string, never> }
  | { id: "filterFieldsByName"; options: { include: { names: string[] } } }
  | {
      id: "organize";
      options: {
        excludeByName: Record<string, boolean>;
        includeByName: Record<string, boolean>;
        indexByName: Record<string, number>;
        renameByName: Record<string, string>;
      };
    };

type Property<Custom> =
  | { id: "unit"; value: string }
  | { id: "decimals"; value: number }
  | { id: "thresholds"; value: Plain<grafana.ThresholdsConfig> }
  | { id: "mappings"; value: Plain<grafana.ValueMapping>[] }
  | { id: "links"; value: DataLink[] }
  | (Custom extends { cellOptions: infer Cell } ? { id: "custom.cellOptions"; value: Plain<Cell> } : never);

type Defaults<Custom> = Omit<Plain<grafana.FieldConfig>, "custom" | "links"> & {
  links: DataLink[];
  custom?: Plain<Custom>;
};

type PanelOf<Type extends string, Options, Custom, Query> = Omit<
  Plain<grafana.Panel>,
  "type" | "id" | "options" | "fieldConfig" | "targets" | "datasource" | "transformations"
> & {
  type: Type;
  id: number;
  datasource: Source;
  options: Plain<Options>;
  targets: Query[];
  transformations?: Transformation[];
  fieldConfig: {
    defaults: Defaults<Custom>;
    overrides: { matcher: { id: "byName"; options: string }; properties: Property<Custom>[] }[];
  };
};

type AnyPanel =
  | PanelOf<"stat", stat.Options, never, PrometheusQuery | LokiQuery>
  | PanelOf<"timeseries", timeseries.Options, timeseries.FieldConfig, PrometheusQuery | LokiQuery>
  | PanelOf<"state-timeline", states.Options, states.FieldConfig, PrometheusQuery>
  | PanelOf<"table", table.Options, table.FieldConfig, PrometheusQuery | LokiQuery | TraceQuery>
  | PanelOf<"logs", logs.Options, never, LokiQuery>;

type Row = Omit<Plain<grafana.RowPanel>, "panels"> & { panels: AnyPanel[] };

export type Board = Omit<Plain<grafana.Dashboard>, "panels"> & {
  uid: string;
  title: string;
  panels: (AnyPanel | Row)[];
};
