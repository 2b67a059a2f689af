// Package experiment makes, changes and ends the slivers of one slice, from the
// experimenter's side.
//
//	request, request before, slivers ── Compare ──> Plan
//	Plan ── Experiment.Clear ──> Delete, and waits until what changes is gone
//	Plan ── Experiment.Apply ──> Allocate … Provision … geni_start, and waits
//	manifest ── ReadManifest ──> nodes with their logins ── SSHConfig ──> a file for OpenSSH
//
// The caller keeps the request from which the slivers were made, for the next Compare. It
// replaces it between Clear and Apply: before, slivers of the old request are there; after,
// slivers of the new one.
//
// A manifest and the answers come from an aggregate that may be hostile: what they say
// goes into SSHConfig only where it cannot mean anything else to OpenSSH.
//
// No RSpec extension tells the host keys of a node, so no manifest does: OpenSSH believes the
// first key that it sees of a sliver (StrictHostKeyChecking accept-new), keeps it under a
// name that only this sliver has, and refuses another one. Who stands between at the first
// login is not noticed.
//
// It answers the AM API v3, "API methods", from the caller's side, and keeps no files.
package experiment
