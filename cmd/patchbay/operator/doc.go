// Package operator has the commands of the operators of a site: lists of what it holds, and
// changes to slivers, leases, components and the whole site.
package operator
