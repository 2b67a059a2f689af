package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"

	"patchbay/am/site"
)

type versionOptions struct{}

func (o *versionOptions) AddFlags(*pflag.FlagSet) {}

func (o *versionOptions) Validate(args []string) error { return noArguments(args) }

func (o *versionOptions) Run(_ context.Context, c console) error {
	fmt.Fprintln(c.out, versionLine())
	return nil
}

func versionLine() string {
	return fmt.Sprintf("patchbay %s (%s, %s/%s)", site.SoftwareVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
