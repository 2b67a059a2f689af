// Package makes what `make package` puts into dist/: a Debian package, a tarball with static
// programs, a container image, a list of the third-party components (SBOM), and checksums. It
// is a module of its own, so that the packaging libraries are no dependencies of Patchbay.
//
// The same inputs make the same bytes: all times are -date, and all lists are sorted.
package main
