// Package urn parses, compares, prints and transcribes the names of GENI:
// urn:publicid:IDN+authority+type+name.
//
// A URN is kept as it was spelled; Equal and Key fold the parts that compare
// without case. Nothing is ever percent-decoded, so two names that only look
// alike stay two names.
//
// It implements the GENI AM API's section on identifiers, and RFC 3151.
package urn
