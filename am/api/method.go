package api

import (
	"context"

	"patchbay/am/xmlrpc"
	"patchbay/credentials"
)

// method is a row of a method table: one method of one version of the AM API.
type method struct {
	name string
	// args are the arguments in their order; the last is the options.
	args []argument
	// answers is what its value is, in words.
	answers string
	// options are those it understands; all others are ignored.
	options []option
	// right is what the caller must have; GetVersion asks for none.
	right credentials.Right
	// sliceRight is asked instead where the options name a slice.
	sliceRight credentials.Right
	// changes says that it changes something: it is a line of the audit.
	changes bool
	// parse reads an argument whose meaning is looked at last, for it needs memory or
	// the options; nil for none.
	parse func(context.Context, *call) error
	// handle does it.
	handle handler
}

// handler does what a method does, and gives the value of the envelope and remarks.
type handler func(context.Context, *call) (xmlrpc.Value, []string, error)

// argument reads one argument into the call.
type argument struct {
	name string
	read func(*call, xmlrpc.Value) error
}

var (
	argSlice       = argument{"slice_urn", (*call).readSlice}
	argURNs        = argument{"urns", (*call).readURNs}
	argCredentials = argument{"credentials", (*call).readCredentials}
	argRSpec       = argument{"rspec", (*call).readRSpec}
	argUsers       = argument{"users", (*call).readUsers}
	argTime        = argument{"expiration_time", (*call).readTime}
	argAction      = argument{"action", (*call).readAction}
	argOptions     = argument{"options", (*call).readOptions}
)

// Versions that are spoken.
const (
	Version2 = 2
	Version3 = 3
)

// Rows that are the same in both versions.
var (
	rowGetVersion = method{
		name: "GetVersion", handle: getVersion,
		args:    []argument{argOptions},
		answers: "struct, about the aggregate",
	}
	rowShutdown = method{
		name: "Shutdown", handle: answered(shutdown, done), changes: true,
		args:    []argument{argSlice, argCredentials, argOptions},
		options: []option{optSpeakingFor},
		right:   credentials.RightShutdown,
		answers: "true",
	}
)

// tables are the versions' methods in the order of their specifications: AM API
// v2, "Methods", and AM API v3, "API operations".
var tables = map[int][]method{
	Version2: {
		rowGetVersion,
		{
			name: "ListResources", handle: listResources2,
			args:    []argument{argCredentials, argOptions},
			options: []option{optSpeakingFor, optSliceURN, optRSpecVersion, optAvailable, optCompressed},
			right:   credentials.RightListResources, sliceRight: credentials.RightDescribe,
			answers: "advertisement, or the manifest of the slice",
		},
		{
			name: "CreateSliver", parse: parseRequest, handle: answered(createSliver, manifest), changes: true,
			args:    []argument{argSlice, argCredentials, argRSpec, argUsers, argOptions},
			options: []option{optSpeakingFor, optEndTime},
			right:   credentials.RightAllocate,
			answers: "manifest",
		},
		{
			name: "DeleteSliver", handle: answered(deleteSlivers, done), changes: true,
			args:    []argument{argSlice, argCredentials, argOptions},
			options: []option{optSpeakingFor},
			right:   credentials.RightDelete,
			answers: "true",
		},
		{
			name: "SliverStatus", handle: answered(sliverStatus, stated2),
			args:    []argument{argSlice, argCredentials, argOptions},
			options: []option{optSpeakingFor},
			right:   credentials.RightStatus,
			answers: "struct of geni_urn, geni_status, geni_resources and the first geni_expires, also as pg_expires",
		},
		{
			name: "RenewSliver", handle: answered(renewSliver, done), changes: true,
			args:    []argument{argSlice, argCredentials, argTime, argOptions},
			options: []option{optSpeakingFor, optAsLongAsPossible},
			right:   credentials.RightRenew,
			answers: "true",
		},
		rowShutdown,
	},
	Version3: {
		rowGetVersion,
		{
			name: "ListResources", handle: listResources,
			args:    []argument{argCredentials, argOptions},
			options: []option{optSpeakingFor, optNoSliceURN, optRSpecVersion, optAvailable, optCompressed},
			right:   credentials.RightListResources,
			answers: "advertisement",
		},
		{
			name: "Describe", handle: answered(describe, described),
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optRSpecVersion, optCompressed, optBestEffort},
			right:   credentials.RightDescribe,
			answers: "struct of geni_rspec, geni_slivers, geni_urn",
		},
		{
			name: "Allocate", parse: parseRequest, handle: answered(allocate, reserved), changes: true,
			args:    []argument{argSlice, argCredentials, argRSpec, argOptions},
			options: []option{optSpeakingFor, optEndTime, optStartTime},
			right:   credentials.RightAllocate,
			answers: "struct of geni_rspec, geni_slivers",
		},
		{
			name: "Provision", handle: answered(provision, reserved), changes: true,
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optRSpecVersion, optBestEffort, optEndTime, optUsers},
			right:   credentials.RightProvision,
			answers: "struct of geni_rspec, geni_slivers",
		},
		{
			name: "Renew", handle: answered(renew, changed), changes: true,
			args:    []argument{argURNs, argCredentials, argTime, argOptions},
			options: []option{optSpeakingFor, optBestEffort, optAsLongAsPossible},
			right:   credentials.RightRenew,
			answers: "array of slivers",
		},
		{
			name: "Status", handle: answered(status, stated),
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optBestEffort},
			right:   credentials.RightStatus,
			answers: "struct of geni_urn, geni_slivers",
		},
		{
			name: "PerformOperationalAction", parse: parseAction, handle: answered(performOperationalAction, changed), changes: true,
			args:    []argument{argURNs, argCredentials, argAction, argOptions},
			options: []option{optSpeakingFor, optBestEffort, optUsers},
			right:   credentials.RightPerformOperationalAction,
			answers: "array of slivers",
		},
		{
			name: "Delete", handle: answered(deleteSlivers, changed), changes: true,
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optBestEffort},
			right:   credentials.RightDelete,
			answers: "array of slivers, as they were",
		},
		rowShutdown,
	},
}

// methods are the rows of tables by name. mutating tells, for the name of each method of
// any version, whether it changes something.
var methods, mutating = func() (map[int]map[string]method, map[string]bool) {
	all, changes := make(map[int]map[string]method), make(map[string]bool)
	for version, rows := range tables {
		all[version] = make(map[string]method)
		for _, r := range rows {
			all[version][r.name] = r
			changes[r.name] = changes[r.name] || r.changes
		}
	}
	return all, changes
}()

// IsMethod tells whether a version of the API has a method of the name.
func IsMethod(name string) bool { _, ok := mutating[name]; return ok }
