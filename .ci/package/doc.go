// Package makes what `make package` puts into dist/: a Debian package, a tarball with static
// programs, a container image, a list of the third-party components (SBOM), and checksums. It
// is a separate module, so that Patchbay does not depend on the packaging libraries.
//
// The same inputs give the same bytes: all times are the value of -date, and all lists are
// sorted.
package main
