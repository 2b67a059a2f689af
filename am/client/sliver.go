package client

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// Sliver is one sliver of an answer.
type Sliver struct {
	URN string
	// ClientID is the name in the request, if the aggregate repeats it.
	ClientID string
	// Allocation and Operational are states as the API spells them, such as geni_allocated.
	Allocation, Operational string
	// Error is the reason why the sliver failed.
	Error string
	// Plan is the stage of the setup that the sliver waits for; see PlanIn.
	Plan    string
	Expires time.Time
	// Begins and Ends are the window of a sliver that was reserved ahead, else zero. RenewableUntil is the latest end that
	// Renew accepts now. Only Patchbay sends them.
	Begins, Ends, RenewableUntil time.Time
	// Services and Interfaces are extensions that only Patchbay sends.
	Services   []Service
	Interfaces []Interface
}

// Service is the result of one step of the node's setup, such as an install.
type Service struct {
	// Step counts the steps of the node from 1.
	Step, Exit                         int
	Kind, What, State, Message, Output string
	// Stage is the number of the step's stage, the order in the request. It counts from 0; people see it
	// counted from 1.
	Stage int
	// Operation is start, stop or uninstall; "" for a step that is done once.
	Operation string
	// Began and Ended are zero if the aggregate does not send them.
	Began, Ended time.Time
}

// Interface is an interface of a node. Emulator names the technique of its link.
type Interface struct {
	ClientID string `xmlrpc:"client_id"`
	Link     string `xmlrpc:"link"`
	MAC      string `xmlrpc:"mac"`
	Emulator string `xmlrpc:"emulator"`
}

// parseSlivers fails if a sliver has no URN, allocation state or end of lease, which the
// API requires.
func parseSlivers(v xmlrpc.Value) ([]Sliver, error) {
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, fmt.Errorf("the slivers are %s, not an array", kind(v))
	}
	out := make([]Sliver, len(list))
	for i, v := range list {
		s, ok := v.(xmlrpc.Struct)
		if !ok {
			return nil, fmt.Errorf("sliver %d is %s, not a struct", i+1, kind(v))
		}
		var expires string
		err := errors.Join(
			members(s, true, map[string]*string{"geni_sliver_urn": &out[i].URN, "geni_allocation_status": &out[i].Allocation, "geni_expires": &expires}),
			members(s, false, map[string]*string{"geni_operational_status": &out[i].Operational, "geni_error": &out[i].Error, "geni_client_id": &out[i].ClientID}))
		if err != nil {
			return nil, fmt.Errorf("sliver %d: %w", i+1, err)
		}
		if out[i].Expires, err = parseTime(expires); err != nil {
			return nil, fmt.Errorf("sliver %d: geni_expires: %w", i+1, err)
		}
		out[i].Begins, out[i].Ends, out[i].RenewableUntil = timeIn(s, "geni_start_time"), timeIn(s, "geni_end_time"), timeIn(s, "patchbay_renewable_until")
		status, _ := s.Get("geni_resource_status")
		text, _ := status.(string)
		out[i].Plan = PlanIn(text)
		if err := parseExtensions(s, &out[i]); err != nil {
			return nil, fmt.Errorf("sliver %d: %w", i+1, err)
		}
	}
	return out, nil
}

// planText matches what Patchbay writes about the plan of a setup.
var planText = regexp.MustCompile(`^stage [0-9]+ of [0-9]+, [0-9]+ of [0-9]+ nodes(; waits for .*?, not started)?`)

// PlanIn returns the part of a geni_resource_status that describes the stage of the setup that a
// sliver waits for, such as "stage 2 of 3, 4 of 6 nodes". It returns "" if the sliver waits for
// none. Only Patchbay sends such a text.
func PlanIn(resourceStatus string) string { return planText.FindString(resourceStatus) }

// ParseServices returns the steps in the struct of a sliver. If one is malformed, it returns an
// error and the steps before.
func ParseServices(sliver xmlrpc.Struct) (list []Service, err error) {
	err = each(sliver, "patchbay_services", func(x xmlrpc.Struct) error {
		var v Service
		err := members(x, false, map[string]*string{"kind": &v.Kind, "operation": &v.Operation, "what": &v.What, "state": &v.State, "message": &v.Message, "output": &v.Output})
		if err != nil {
			return err
		}
		for name, to := range map[string]*int{"step": &v.Step, "stage": &v.Stage, "exit": &v.Exit} {
			n, _ := x.Get(name)
			*to, _ = n.(int)
		}
		v.Began, v.Ended = timeIn(x, "began"), timeIn(x, "ended")
		list = append(list, v)
		return nil
	})
	return list, err
}

func parseExtensions(s xmlrpc.Struct, to *Sliver) (err error) {
	if to.Services, err = ParseServices(s); err != nil {
		return err
	}
	return each(s, "patchbay_interfaces", func(x xmlrpc.Struct) (err error) {
		var v Interface
		err = members(x, false, map[string]*string{"client_id": &v.ClientID, "link": &v.Link, "mac": &v.MAC, "emulator": &v.Emulator})
		to.Interfaces = append(to.Interfaces, v)
		return err
	})
}

// each calls f with each struct in the array that is the member name of s. It does nothing if s has
// no such member.
func each(s xmlrpc.Struct, name string, f func(xmlrpc.Struct) error) error {
	v, ok := s.Get(name)
	if !ok {
		return nil
	}
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return fmt.Errorf("%s is %s, not an array", name, kind(v))
	}
	for i, v := range list {
		x, ok := v.(xmlrpc.Struct)
		if !ok {
			return fmt.Errorf("%s: item %d is %s, not a struct", name, i+1, kind(v))
		}
		if err := f(x); err != nil {
			return fmt.Errorf("%s: item %d: %w", name, i+1, err)
		}
	}
	return nil
}

func members(s xmlrpc.Struct, required bool, fields map[string]*string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := member(s, name, fields[name], required); err != nil {
			return err
		}
	}
	return nil
}

// member stores the text of a member of s. It fails for a missing member only if required is true.
func member(s xmlrpc.Struct, name string, to *string, required bool) error {
	v, ok := s.Get(name)
	if !ok && !required {
		return nil
	}
	text, isText := v.(string)
	switch {
	case !ok:
		return fmt.Errorf("%s is missing", name)
	case !isText:
		return fmt.Errorf("%s is %s, not a string", name, kind(v))
	}
	*to = text
	return nil
}

// parseTime reads a time as aggregates write it: RFC 3339, also with a blank instead of
// the T, or without an offset, which means UTC.
func parseTime(s string) (time.Time, error) {
	t := strings.Replace(strings.ToUpper(strings.TrimSpace(s)), " ", "T", 1)
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, t); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("not a time: %q", s)
}

// timeIn returns the time that a member of s is; zero if it is missing or no time.
func timeIn(s xmlrpc.Struct, name string) time.Time {
	v, _ := s.Get(name)
	text, _ := v.(string)
	t, _ := parseTime(text)
	return t
}

// Waits reports whether the sliver is reserved, and begins after now.
func (s *Sliver) Waits(now time.Time) bool {
	return s.Allocation == string(am.Allocated) && s.Begins.After(now)
}

// LeaseEnd returns the end of the lease that the sliver has, or will have from its start on.
func (s *Sliver) LeaseEnd() time.Time {
	if s.Waits(time.Now()) {
		return s.Ends
	}
	return s.Expires
}

func kind(v xmlrpc.Value) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a string"
	case int:
		return "an int"
	case bool:
		return "a boolean"
	case float64:
		return "a double"
	case []byte:
		return "base64"
	case time.Time:
		return "a dateTime"
	case xmlrpc.Struct:
		return "a struct"
	case []xmlrpc.Value:
		return "an array"
	}
	return fmt.Sprintf("a %T", v)
}
