package credentials

import (
	"errors"
	"time"

	"patchbay/am"
	"patchbay/credentials/rule"
)

// parseExpires parses an xs:dateTime. A missing offset means UTC. It drops fractions of a
// second, and fails for leap seconds and years without four digits.
func parseExpires(s string) (time.Time, error) {
	t, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", s)
	if err != nil {
		if t, err = time.Parse("2006-01-02T15:04:05.999999999", s); err != nil {
			return time.Time{}, errors.New("it is not a time such as 2026-01-31T12:00:00Z")
		}
	}
	if _, offset := t.Zone(); offset < -14*3600 || offset > 14*3600 {
		return time.Time{}, refuse(rule.ExpiryOffset, am.CredentialInvalid, "its offset from UTC is more than 14 hours")
	}
	return t.UTC().Truncate(time.Second), nil
}
