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
	// handle does it and gives the value of the envelope.
	handle func(context.Context, *call) (xmlrpc.Value, []string, error)
}

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

// tables are the versions' methods in the order of their specifications: AM API
// v2, "Methods", and AM API v3, "API operations".
var tables = map[int][]method{
	Version2: {
		{"GetVersion", []argument{argOptions}, "struct, about the aggregate", nil, "", "", getVersion},
		{"ListResources", []argument{argCredentials, argOptions}, "advertisement, or the manifest of the slice", []option{optSpeakingFor, optSliceURN, optRSpecVersion, optAvailable, optCompressed}, credentials.RightListResources, credentials.RightDescribe, listResources2},
		{"CreateSliver", []argument{argSlice, argCredentials, argRSpec, argUsers, argOptions}, "manifest", []option{optSpeakingFor, optEndTime}, credentials.RightAllocate, "", createSliver},
		{"DeleteSliver", []argument{argSlice, argCredentials, argOptions}, "true", []option{optSpeakingFor}, credentials.RightDelete, "", deleteSliver},
		{"SliverStatus", []argument{argSlice, argCredentials, argOptions}, "struct of geni_urn, geni_status, geni_resources and the first geni_expires, also as pg_expires", []option{optSpeakingFor}, credentials.RightStatus, "", sliverStatus},
		{"RenewSliver", []argument{argSlice, argCredentials, argTime, argOptions}, "true", []option{optSpeakingFor, optAsLongAsPossible}, credentials.RightRenew, "", renewSliver},
		{"Shutdown", []argument{argSlice, argCredentials, argOptions}, "true", []option{optSpeakingFor}, credentials.RightShutdown, "", shutdown},
	},
	Version3: {
		{"GetVersion", []argument{argOptions}, "struct, about the aggregate", nil, "", "", getVersion},
		{"ListResources", []argument{argCredentials, argOptions}, "advertisement", []option{optSpeakingFor, optNoSliceURN, optRSpecVersion, optAvailable, optCompressed}, credentials.RightListResources, "", listResources},
		{"Describe", []argument{argURNs, argCredentials, argOptions}, "struct of geni_rspec, geni_slivers, geni_urn", []option{optSpeakingFor, optRSpecVersion, optCompressed, optBestEffort}, credentials.RightDescribe, "", describe},
		{"Allocate", []argument{argSlice, argCredentials, argRSpec, argOptions}, "struct of geni_rspec, geni_slivers", []option{optSpeakingFor, optEndTime, optStartTime}, credentials.RightAllocate, "", allocate},
		{"Provision", []argument{argURNs, argCredentials, argOptions}, "struct of geni_rspec, geni_slivers", []option{optSpeakingFor, optRSpecVersion, optBestEffort, optEndTime, optUsers}, credentials.RightProvision, "", provision},
		{"Renew", []argument{argURNs, argCredentials, argTime, argOptions}, "array of slivers", []option{optSpeakingFor, optBestEffort, optAsLongAsPossible}, credentials.RightRenew, "", renew},
		{"Status", []argument{argURNs, argCredentials, argOptions}, "struct of geni_urn, geni_slivers", []option{optSpeakingFor, optBestEffort}, credentials.RightStatus, "", status},
		{"PerformOperationalAction", []argument{argURNs, argCredentials, argAction, argOptions}, "array of slivers", []option{optSpeakingFor, optBestEffort, optUsers}, credentials.RightPerformOperationalAction, "", performOperationalAction},
		{"Delete", []argument{argURNs, argCredentials, argOptions}, "array of slivers, as they were", []option{optSpeakingFor, optBestEffort}, credentials.RightDelete, "", deleteSlivers},
		{"Shutdown", []argument{argSlice, argCredentials, argOptions}, "true", []option{optSpeakingFor}, credentials.RightShutdown, "", shutdown},
	},
}

// methods are the rows of tables by name.
var methods = func() map[int]map[string]method {
	all := make(map[int]map[string]method, len(tables))
	for version, rows := range tables {
		all[version] = make(map[string]method, len(rows))
		for _, r := range rows {
			all[version][r.name] = r
		}
	}
	return all
}()
