package trial

import (
	"crypto/sha1" // names keys in ABAC
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"time"

	"patchbay/credentials/cert"
)

// SpeaksFor lets a tool, whose certificate in PEM is given, act for the user
// until expires. The user signs it.
func SpeaksFor(user User, tool []byte, expires time.Time) ([]byte, error) {
	chain, err := cert.ParsePEM(user.Certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", user.URN, err)
	}
	list, err := cert.ParsePEM(tool)
	if err != nil {
		return nil, fmt.Errorf("certificate of the tool: %w", err)
	}
	if expires.After(chain[0].NotAfter) {
		return nil, fmt.Errorf("%s cannot let a tool speak beyond the end of its certificate, %s", user.URN, chain[0].NotAfter.Format(time.RFC3339))
	}
	head, err := keyID(chain[0])
	if err != nil {
		return nil, err
	}
	tail, err := keyID(list[0])
	if err != nil {
		return nil, err
	}
	return user.sign(fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.geni.net/resources/credential/2/credential.xsd"><credential xml:id="ref0"><type>abac</type><serial/><owner_gid/><target_gid/><uuid/><expires>%s</expires><abac><rt0><version>1.1</version><head><ABACprincipal><keyid>%s</keyid></ABACprincipal><role>speaks_for_%[2]s</role></head><tail><ABACprincipal><keyid>%s</keyid></ABACprincipal></tail></rt0></abac></credential><signatures/></signed-credential>
`, expires.UTC().Format(time.RFC3339), head, tail), "ref0")
}

// keyID is the SHA-1 of the key's BIT STRING, by which ABAC names it.
func keyID(c *cert.Certificate) (string, error) {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil {
		return "", fmt.Errorf("key of %s: %w", c.Name(), err)
	}
	sum := sha1.Sum(info.Key.Bytes)
	return hex.EncodeToString(sum[:]), nil
}
