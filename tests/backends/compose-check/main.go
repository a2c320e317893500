// Command compose-check reads a compose file as `docker compose config` does: schema, interpolation, references.
//
// It prints the resolved project as JSON. Tests use it where no container engine is.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose-check FILE")
		os.Exit(2)
	}
	options, err := cli.NewProjectOptions(
		[]string{os.Args[1]},
		cli.WithOsEnv,
		cli.WithInterpolation(true),
		cli.WithResolvedPaths(true),
		cli.WithConsistency(true),
		cli.WithNormalization(true),
	)
	if err == nil {
		project, failed := options.LoadProject(context.Background())
		if failed == nil {
			text, _ := project.MarshalJSON()
			os.Stdout.Write(text)
			return
		}
		err = failed
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
