package main

import (
	"errors"

	"patchbay/am/display"
	"patchbay/am/site"
)

func notServedUnpromised() error {
	return errors.New("the site is not served, and only then it asks its providers what they have; serve it, and try again")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func remarkOn(r *site.UnpromisedRow) string {
	switch {
	case !r.Ordered.IsZero():
		return "told to go at " + display.Time(r.Ordered)
	case r.Holds:
		return "nothing new goes to its node"
	}
	return ""
}
