package trial

import (
	"fmt"
	"time"

	"patchbay/credentials/cert"
)

// SpeaksFor returns a speaks-for credential that the user signed. Until expires, it lets
// a tool act for the user. tool is the tool's certificate in PEM.
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
		return nil, fmt.Errorf("no tool can speak for %s after the user's certificate has expired, %s", user.URN, chain[0].NotAfter.Format(time.RFC3339))
	}
	return user.sign(fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.geni.net/resources/credential/2/credential.xsd"><credential xml:id="ref0"><type>abac</type><serial/><owner_gid/><target_gid/><uuid/><expires>%s</expires><abac><rt0><version>1.1</version><head><ABACprincipal><keyid>%x</keyid></ABACprincipal><role>speaks_for_%[2]x</role></head><tail><ABACprincipal><keyid>%x</keyid></ABACprincipal></tail></rt0></abac></credential><signatures/></signed-credential>
`, expires.UTC().Format(time.RFC3339), chain[0].KeyID(), list[0].KeyID()), "ref0")
}
