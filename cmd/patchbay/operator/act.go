package operator

import (
	"errors"

	"patchbay/am/display"
	"patchbay/am/site"
)

func notServedError() error {
	return errors.New("this needs a running server: start it with patchbay serve, and try again")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func remarkOn(r *site.OrphanRow) string {
	switch {
	case !r.RemovalRequested.IsZero():
		return "removal requested at " + display.Time(r.RemovalRequested)
	case r.Holds:
		return "its node takes no new slivers"
	}
	return ""
}
