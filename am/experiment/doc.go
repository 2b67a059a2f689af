// Package experiment makes, changes, and ends an experiment: the slivers of one slice at
// one aggregate, from the side of the experimenter.
//
//	request, request before, slivers ── Compare ──> Plan
//	Plan ── Experiment.Apply ──> Delete … Allocate … Provision … geni_start, and waits
//	manifest ── ReadManifest ──> nodes with their logins ── SSHConfig ──> a file for OpenSSH
//
// The aggregate may be hostile. SSHConfig takes values from its manifest only if they have
// no other meaning to OpenSSH.
//
// It answers the AM API v3, "API methods", from the caller's side, and keeps no files.
package experiment
