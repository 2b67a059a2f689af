package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

type versionOptions struct{}

func (o *versionOptions) AddFlags(*pflag.FlagSet) {}

func (o *versionOptions) Validate(args []string) error { return command.NoArguments(args) }

func (o *versionOptions) Run(_ context.Context, c command.Console) error {
	fmt.Fprintln(c.Out, versionLine())
	return nil
}

func versionLine() string {
	return fmt.Sprintf("patchbay %s (%s, %s/%s)", site.SoftwareVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
