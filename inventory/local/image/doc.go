// Package image keeps root file systems for nodes below one folder: "host", an
// allow-listed skeleton of this host whose /usr is shared read-only, and others
// made from a folder, a tarball, or by mmdebstrap.
package image
