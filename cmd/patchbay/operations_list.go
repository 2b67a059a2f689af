package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
)

func (o *listOptions) addEndsBefore(fs *pflag.FlagSet) {
	fs.StringVar(&o.endsBefore, "ends-before", "", "TIME before which the lease ends, or a while from now such as 2h")
}

// ago reads a time, or a while before now; nothing is zero.
func ago(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := display.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := pastMoment(s)
	if err != nil {
		return t, fmt.Errorf("%s %w, or a while ago such as 2h or 3d", flag, err)
	}
	return t, nil
}

func (o *listOptions) client() (site.AdminClient, error) {
	config, _, err := o.site.read()
	return site.AdminClient{Config: config, Backup: o.Backup}, err
}

// show prints a list, as JSON or as a table of which row adds what it is given.
func show[T any](ctx context.Context, o *listOptions, c console, nothing string, head []string, row func(*table, *T)) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	now := h.Now(ctx)
	if err := o.readTimes(now); err != nil {
		return err
	}
	if o.JSON {
		return h.List(ctx, o.what, o.filter, c.out)
	}
	t := newTable(c.out, o, now)
	t.head(head...)
	if err := site.Rows(ctx, h, o.what, o.filter, func(r *T) error { row(t, r); return nil }); err != nil {
		return err
	}
	return t.flush(nothing)
}
