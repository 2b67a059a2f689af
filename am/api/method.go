package api

import (
	"context"

	"patchbay/am/api/xmlrpc"
	"patchbay/credentials"
)

// method is a row of a method table: one method of one version of the AM API.
type method struct {
	name string
	// args are the arguments in their order; the last is the options.
	args []argument
	// answers describes the method's return value, for the guides.
	answers string
	// options are the options that the method reads; it ignores all others.
	options []option
	// right is the right that the caller must have; "" for GetVersion.
	right credentials.Right
	// sliceRight replaces right if the options name a slice.
	sliceRight credentials.Right
	// changes means that the method changes something; its calls are in the audit log.
	changes bool
	// parse parses an argument that needs memory or depends on the options. It runs after all
	// other checks. nil means that there is no such argument.
	parse func(context.Context, *call) error
	// handle runs the method.
	handle handler
}

// handler runs a method and returns the envelope's value and notices for its output.
type handler func(context.Context, *call) (xmlrpc.Value, []string, error)

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

// The supported versions.
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
		name: "Shutdown", handle: handlerOf(shutdown, trueValue), changes: true,
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
			options: []option{optSpeakingFor, optSliceURN, optRSpecVersion, optAvailable, optCompressed, optAdStart, optAdEnd},
			right:   credentials.RightListResources, sliceRight: credentials.RightDescribe,
			answers: "advertisement, or the manifest of the slice",
		},
		{
			name: "CreateSliver", parse: parseRequest, handle: handlerOf(createSliver, manifest), changes: true,
			args:    []argument{argSlice, argCredentials, argRSpec, argUsers, argOptions},
			options: []option{optSpeakingFor, optEndTime, optStartTime},
			right:   credentials.RightAllocate,
			answers: "manifest",
		},
		{
			name: "DeleteSliver", handle: handlerOf(deleteSlivers, trueValue), changes: true,
			args:    []argument{argSlice, argCredentials, argOptions},
			options: []option{optSpeakingFor},
			right:   credentials.RightDelete,
			answers: "true",
		},
		{
			name: "SliverStatus", handle: handlerOf(sliverStatus, sliverStatus2),
			args:    []argument{argSlice, argCredentials, argOptions},
			options: []option{optSpeakingFor},
			right:   credentials.RightStatus,
			answers: "struct of geni_urn, geni_status, geni_resources, and the earliest end as geni_expires and pg_expires",
		},
		{
			name: "RenewSliver", handle: handlerOf(renewSliver, trueValue), changes: true,
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
			options: []option{optSpeakingFor, optNoSliceURN, optRSpecVersion, optAvailable, optCompressed, optAdStart, optAdEnd},
			right:   credentials.RightListResources,
			answers: "advertisement",
		},
		{
			name: "Describe", handle: handlerOf(describe, describeValue),
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optRSpecVersion, optCompressed, optBestEffort},
			right:   credentials.RightDescribe,
			answers: "struct of geni_rspec, geni_slivers, geni_urn",
		},
		{
			name: "Allocate", parse: parseRequest, handle: handlerOf(allocate, reservedValue), changes: true,
			args:    []argument{argSlice, argCredentials, argRSpec, argOptions},
			options: []option{optSpeakingFor, optEndTime, optStartTime, optAtStart, optUsersAtStart, optChange, optPreview},
			right:   credentials.RightAllocate,
			answers: "struct of geni_rspec, geni_slivers",
		},
		{
			name: "Provision", handle: handlerOf(provision, reservedValue), changes: true,
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optRSpecVersion, optBestEffort, optEndTime, optAtStart, optUsers},
			right:   credentials.RightProvision,
			answers: "struct of geni_rspec, geni_slivers",
		},
		{
			name: "Renew", handle: handlerOf(renew, sliverList), changes: true,
			args:    []argument{argURNs, argCredentials, argTime, argOptions},
			options: []option{optSpeakingFor, optBestEffort, optAsLongAsPossible, optNewEnd},
			right:   credentials.RightRenew,
			answers: "array of slivers",
		},
		{
			name: "Status", handle: handlerOf(status, statusValue),
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optBestEffort},
			right:   credentials.RightStatus,
			answers: "struct of geni_urn, geni_slivers",
		},
		{
			name: "PerformOperationalAction", parse: parseAction, handle: handlerOf(performOperationalAction, sliverList), changes: true,
			args:    []argument{argURNs, argCredentials, argAction, argOptions},
			options: []option{optSpeakingFor, optBestEffort, optUsers},
			right:   credentials.RightPerformOperationalAction,
			answers: "array of slivers",
		},
		{
			name: "Delete", handle: handlerOf(deleteSlivers, sliverList), changes: true,
			args:    []argument{argURNs, argCredentials, argOptions},
			options: []option{optSpeakingFor, optBestEffort},
			right:   credentials.RightDelete,
			answers: "array of the deleted slivers, now geni_unallocated",
		},
		rowShutdown,
	},
}

// methods are the rows of tables, by version and name. mutating contains the methods of all
// versions: its value is true for methods that change something.
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

// IsMethod reports whether any version of the API has a method of that name.
func IsMethod(name string) bool { _, ok := mutating[name]; return ok }
