// Package check explains what is wrong with a site or a single file, and what to
// do about it. It changes nothing, except that HoldComponent creates a missing store.
package check
