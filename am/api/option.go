package api

import (
	"errors"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// option is a row about one option, wherever it is understood (AM API v3,
// "Options").
type option struct {
	name string
	// kind is what it must be.
	kind string
	// without is what holds where it is not given.
	without string
	// says is what it does, in a sentence.
	says string
	// required is what to give; the call is BadArgs without it. Empty means nothing.
	required string
	// early options decide about the caller's right, so they are read before it
	// is checked; whatever the others say must wait.
	early bool
	// read takes its value into the call. An error that is no *am.Error is BadArgs.
	read func(c *call, v xmlrpc.Value) error
}

// given are the options of a call, read; the zero value of each is its default.
type given struct {
	speakingFor                                         string
	slice                                               urn.URN
	available, compressed, bestEffort, asLongAsPossible bool
	endTime                                             time.Time
	users                                               []am.Account
	hasUsers                                            bool
}

// flagKind is what a flag must be.
const flagKind = "boolean, 0 or 1; also as a string"

var (
	optSpeakingFor = option{
		name: "geni_speaking_for", kind: "URN of a user", early: true,
		without: "callers speak for themselves",
		says:    "the caller is a tool and acts for this user, whose speaks-for credential is among the credentials",
		read: func(c *call, v xmlrpc.Value) (err error) {
			c.speakingFor, err = text(v)
			c.speakingFor = strings.TrimSpace(c.speakingFor)
			return err
		},
	}
	optSliceURN = option{
		name: "geni_slice_urn", kind: "URN of a slice", early: true,
		without: "the advertisement",
		says:    "answer the manifest of this slice; needs a credential of the slice",
		read: func(c *call, v xmlrpc.Value) error {
			s, err := text(v)
			if strings.TrimSpace(s) != "" {
				c.slice, err = parseSlice(s)
			}
			return err
		},
	}
	optNoSliceURN = option{
		name: "geni_slice_urn", kind: "–",
		says: "refused (1) by ListResources of version 3: Describe tells a slice's manifest",
		read: func(*call, xmlrpc.Value) error {
			return errors.New("it is not of ListResources in AM API v3; use Describe")
		},
	}
	optRSpecVersion = option{
		name: "geni_rspec_version", kind: `struct of type and version`, required: `a struct such as {"type": "GENI", "version": "3"}`,
		says: "the RSpecs to answer with: `GENI` `3`, in any case of letters; all others are refused (4)",
		read: rspecVersion,
	}
	optAvailable = option{
		name: "geni_available", kind: flagKind, without: "false",
		says: "advertise only what is free now",
		read: func(c *call, v xmlrpc.Value) (err error) { c.available, err = boolean(v); return err },
	}
	optCompressed = option{
		name: "geni_compressed", kind: flagKind, without: "false",
		says: "the RSpec as base64 of zlib (RFC 1950), still in a string",
		read: func(c *call, v xmlrpc.Value) (err error) { c.compressed, err = boolean(v); return err },
	}
	optBestEffort = option{
		name: "geni_best_effort", kind: flagKind, without: "false: all or nothing",
		says: "do what is possible: slivers that were left as they are, or are not there, say why in `geni_error`; a code only if nothing was possible",
		read: func(c *call, v xmlrpc.Value) (err error) { c.bestEffort, err = boolean(v); return err },
	}
	optAsLongAsPossible = option{
		name: "geni_extend_alap", kind: flagKind, without: "false: exactly the time, or refused (7, am_code 19)",
		says: "as long as possible: a time beyond the limits is cut to them, and no lease is shortened",
		read: func(c *call, v xmlrpc.Value) (err error) { c.asLongAsPossible, err = boolean(v); return err },
	}
	optEndTime = option{
		name: "geni_end_time", kind: "RFC 3339 time in the future", without: "the site's default; for Provision what Allocate was told",
		says: "wish for the end of the lease, earlier or later than the default; cut to the limits",
		read: func(c *call, v xmlrpc.Value) (err error) { c.endTime, err = moment(v); return err },
	}
	optStartTime = option{
		name: "geni_start_time", kind: "RFC 3339 time", without: "now",
		says: "must not lie in the future (13): there are no reservations for later",
		read: func(c *call, v xmlrpc.Value) error {
			start, err := moment(v)
			if err == nil && start.After(c.now) {
				err = am.Errorf(am.Unsupported, "option geni_start_time: reservations in the future are not supported; leave it out")
			}
			return err
		},
	}
	optUsers = option{
		name: "geni_users", kind: "array of structs of urn and keys", without: "no accounts; `geni_update_users` needs it (1)",
		says: "whose accounts to make on each node, and the OpenSSH public keys that open them. `geni_update_users` replaces the keys of these users, adds who is new, takes away who has none, and leaves all others; of a user named twice all keys count",
		read: func(c *call, v xmlrpc.Value) (err error) {
			c.hasUsers = true
			c.users, err = users(v)
			return err
		},
	}
)

// boolean reads a boolean in any of the ways clients write one.
func boolean(v xmlrpc.Value) (bool, error) {
	b, ok := xmlrpc.AsBool(v)
	if !ok {
		return false, errors.New("it must be a boolean")
	}
	return b, nil
}

// text reads a string.
func text(v xmlrpc.Value) (string, error) {
	s, ok := xmlrpc.AsString(v)
	if !ok {
		return "", errors.New("it must be a string")
	}
	return s, nil
}

// rspecVersion checks geni_rspec_version: BadVersion for another than GENI 3.
func rspecVersion(_ *call, v xmlrpc.Value) error {
	s, isStruct := v.(xmlrpc.Struct)
	t, hasType := s.Get("type")
	n, hasVersion := s.Get("version")
	if !isStruct || !hasType || !hasVersion {
		return errors.New("it must be a struct with type and version")
	}
	typ, ok1 := xmlrpc.AsString(t)
	ver, ok2 := scalar(n)
	if !ok1 || !ok2 {
		return errors.New("type and version must be strings")
	}
	if !strings.EqualFold(strings.TrimSpace(typ), "GENI") || strings.TrimSpace(ver) != "3" {
		return am.Errorf(am.BadVersion, "RSpecs of type %.40q version %.40q are not spoken here; ask for GENI 3", typ, ver)
	}
	return nil
}
