// Package browsertest has the tests that use the pages of a site in chromium, as people do.
// `make test-web` runs them.
package browsertest
