package operator

import (
	"errors"
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
