// Package urn parses, compares and formats the names of GENI:
// urn:publicid:IDN+authority+type+name.
//
// A URN keeps its spelling; Equal and Key ignore case where GENI does. No part is ever
// percent-decoded, so a name and its encoded spelling are two names.
//
// The package implements the GENI AM API's section on identifiers and RFC 3151.
package urn
