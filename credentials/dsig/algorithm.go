package dsig

import (
	"crypto"
	_ "crypto/sha1" // old federations still sign with it
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"

	"patchbay/schemas/xmltree"
)

// The namespace of signatures.
const nsDS = "http://www.w3.org/2000/09/xmldsig#"

const (
	nsMore    = "http://www.w3.org/2001/04/xmldsig-more#"
	nsEnc     = "http://www.w3.org/2001/04/xmlenc#"
	c14n10    = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	enveloped = nsDS + "enveloped-signature"
)

// All other algorithms are refused.
var (
	canonicalizations = map[string]xmltree.Method{
		c14n10:                                 xmltree.C14N10,
		"http://www.w3.org/2006/12/xml-c14n11": xmltree.C14N11,
		"http://www.w3.org/2001/10/xml-exc-c14n#": xmltree.ExclusiveC14N10,
	}
	digestMethods = map[string]crypto.Hash{
		nsDS + "sha1":     crypto.SHA1,
		nsEnc + "sha256":  crypto.SHA256,
		nsMore + "sha384": crypto.SHA384,
		nsEnc + "sha512":  crypto.SHA512,
	}
	signatureMethods = map[string]x509.SignatureAlgorithm{
		nsDS + "rsa-sha1":       x509.SHA1WithRSA,
		nsMore + "rsa-sha256":   x509.SHA256WithRSA,
		nsMore + "rsa-sha384":   x509.SHA384WithRSA,
		nsMore + "rsa-sha512":   x509.SHA512WithRSA,
		nsMore + "ecdsa-sha256": x509.ECDSAWithSHA256,
		nsMore + "ecdsa-sha384": x509.ECDSAWithSHA384,
		nsMore + "ecdsa-sha512": x509.ECDSAWithSHA512,
	}
)
