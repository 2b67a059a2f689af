package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

// option describes one option of methods (AM API v3, "Options").
type option struct {
	name string
	// kind describes the type of its value.
	kind string
	// without describes the behaviour without the option.
	without string
	// effect describes what the option does, in a sentence.
	effect string
	// required describes the value of a required option; a call without the option fails
	// with BadArgs. It is empty for an optional option.
	required string
	// early means that the option decides about the required right. It is read before the
	// right is checked; all other options are read afterwards.
	early bool
	// read stores the option's value in the call. An error that is not an *am.Error is BadArgs.
	read func(c *call, v xmlrpc.Value) error
}

// parsedOptions are the parsed options of a call; the zero value of each is its default.
type parsedOptions struct {
	speakingFor                                                 string
	slice                                                       urn.URN
	available, compressed, bestEffort, asLongAsPossible, change bool
	preview                                                     bool
	without                                                     []urn.URN
	startTime, endTime                                          time.Time
	atStart                                                     bool
	users                                                       []am.Account
	hasUsers                                                    bool
}

const flagKind = "boolean, 0 or 1; also as a string"

var (
	optSpeakingFor = option{
		name: "geni_speaking_for", kind: "URN of a user", early: true,
		without: "the caller acts in its own name",
		effect:  "the caller is a tool and acts for this user, whose speaks-for credential is among the credentials",
		read: func(c *call, v xmlrpc.Value) (err error) {
			c.speakingFor, err = text(v)
			c.speakingFor = strings.TrimSpace(c.speakingFor)
			return err
		},
	}
	optSliceURN = option{
		name: "geni_slice_urn", kind: "URN of a slice", early: true,
		without: "the advertisement",
		effect:  "version 2: return the manifest of this slice; needs a credential of the slice",
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
		effect: "version 3: refused (1) by ListResources; use Describe for a slice's manifest",
		read: func(*call, xmlrpc.Value) error {
			return errors.New("ListResources of AM API v3 does not have it; use Describe")
		},
	}
	optRSpecVersion = option{
		name: "geni_rspec_version", kind: `struct of type and version`, required: `a struct such as {"type": "GENI", "version": "3"}`,
		effect: "the version of returned RSpecs: `GENI` `3`, in upper or lower case; all others are refused (4)",
		read:   rspecVersion,
	}
	optAvailable = option{
		name: "geni_available", kind: flagKind, without: "false",
		effect: "advertise only nodes that are available now",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.available, err = boolean(v); return err },
	}
	optCompressed = option{
		name: "geni_compressed", kind: flagKind, without: "false",
		effect: "return the RSpec as base64 of zlib (RFC 1950), in a string",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.compressed, err = boolean(v); return err },
	}
	optBestEffort = option{
		name: "geni_best_effort", kind: flagKind, without: "false: all or nothing",
		effect: "change as many slivers as possible: `geni_error` of the others has the reason; the call fails only if no sliver was changed",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.bestEffort, err = boolean(v); return err },
	}
	optAsLongAsPossible = option{
		name: "geni_extend_alap", kind: flagKind, without: "false: exactly the time, or refused (7, am_code 19)",
		effect: "as long as possible: a time beyond the limits is reduced to them, and no lease is shortened",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.asLongAsPossible, err = boolean(v); return err },
	}
	optEndTime = option{
		name: "geni_end_time", kind: "RFC 3339 time in the future", without: "the site's default; for Provision the time given to Allocate",
		effect: "the requested end of the lease, earlier or later than the default; reduced to the limits",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.endTime, err = ParseTime(v); return err },
	}
	// optUsersAtStart comes after optAtStart. It was ignored before, so it is still ignored where it has no effect.
	optUsersAtStart = option{
		name: optUsers.name, kind: optUsers.kind, without: "no accounts", effect: "in Allocate: only read with `patchbay_provision_at_start`",
		read: func(c *call, v xmlrpc.Value) (err error) {
			if c.atStart {
				c.users, err = users(v)
			}
			return err
		},
	}
	optStartTime = option{
		name: "geni_start_time", kind: "RFC 3339 time", without: "now",
		effect: "the start of the reservation; a time within the next minute, or in the past, means now. Later than `leases.ahead_max`: refused (7, am_code 19)",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.startTime, err = ParseTime(v); return err },
	}
	optAtStart = option{
		name: "patchbay_provision_at_start", kind: flagKind, without: "false: Provision must be called after the start",
		effect: "slivers that begin later, or whose `geni_start_time` counts as now, are provisioned and started at their start, with accounts for `geni_users`. In a Provision before the start, it replaces these accounts",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.atStart, err = boolean(v); return err },
	}
	optNewEnd = option{
		name: "geni_end_time", kind: "RFC 3339 time in the future", without: "the end stays",
		effect: "the end of a reservation that has not begun: earlier at any time, later if its resources are free",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.endTime, err = ParseTime(v); return err },
	}
	optAdStart = option{
		name: "geni_start_time", kind: "RFC 3339 time", without: "now",
		effect: "in ListResources: advertise a time to come; nodes are available if they are free in the whole time. A start later than `leases.ahead_max` is refused (1)",
		read:   optStartTime.read,
	}
	optAdEnd = option{
		name: "geni_end_time", kind: "RFC 3339 time in the future", without: "with `geni_start_time`, the time of a lease of default length",
		effect: "in ListResources: the end of the time that is advertised",
		read:   optEndTime.read,
	}
	optChange = option{
		name: "patchbay_change", kind: flagKind, without: "false: a client_id that the slice has already is refused (17)",
		effect: "the request changes the slice: nodes that it has already stay, and get the links and steps of the request; see [experimenter](experimenter.md)",
		read:   func(c *call, v xmlrpc.Value) (err error) { c.change, err = boolean(v); return err },
	}
	optPreview = option{
		name: "patchbay_preview", kind: "array of URNs of slivers of the slice, also empty", without: "what the request asks for is reserved",
		effect: "nothing is reserved: the answer has the code and the output that it would have if these slivers were deleted and their components cleaned, and no slivers",
		read: func(c *call, v xmlrpc.Value) error {
			list, ok := v.([]xmlrpc.Value)
			if !ok {
				return errors.New("it must be an array of strings")
			}
			c.preview = true
			return eachURN(list, func(u urn.URN) error {
				if u.Type != urn.Sliver {
					return fmt.Errorf("%s is a %s, not a sliver", u, u.Type)
				}
				c.without = append(c.without, u)
				return nil
			})
		},
	}
	optUsers = option{
		name: "geni_users", kind: "array of structs of urn and keys", without: "no accounts; `geni_update_users` needs it (1)",
		effect: "the users who get accounts on each node, with their OpenSSH public keys. `geni_update_users` replaces the keys of these users, adds new users, removes users with an empty `keys`, and keeps all others; if a user is listed twice, all keys count",
		read: func(c *call, v xmlrpc.Value) (err error) {
			c.hasUsers = true
			c.users, err = users(v)
			return err
		},
	}
)

func boolean(v xmlrpc.Value) (bool, error) {
	b, ok := xmlrpc.AsBool(v)
	if !ok {
		return false, errors.New("it must be a boolean")
	}
	return b, nil
}

func text(v xmlrpc.Value) (string, error) {
	s, ok := xmlrpc.AsString(v)
	if !ok {
		return "", errors.New("it must be a string")
	}
	return s, nil
}

// rspecVersion returns BadVersion for any version but GENI 3.
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
		return am.Errorf(am.BadVersion, "RSpecs of type %.40q version %.40q are not supported; request GENI 3", typ, ver)
	}
	return nil
}
