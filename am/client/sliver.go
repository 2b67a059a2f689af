package client

import (
	"fmt"
	"regexp"
	"strings"
	"time"
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

// planText matches what Patchbay writes about the plan of a setup.
var planText = regexp.MustCompile(`^stage [0-9]+ of [0-9]+, [0-9]+ of [0-9]+ nodes(; waits for .*?, not started)?`)

// PlanIn returns the part of a geni_resource_status that describes the stage of the setup that a
// sliver waits for, such as "stage 2 of 3, 4 of 6 nodes". It returns "" if the sliver waits for
// none. Only Patchbay sends such a text.
func PlanIn(resourceStatus string) string { return planText.FindString(resourceStatus) }

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
