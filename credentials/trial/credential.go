package trial

import (
	"bytes"
	"fmt"
	"html"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

var userPrivileges = []string{"refresh", "resolve", "info"}

// OwnerPrivileges are the privileges of a slice's owners.
var OwnerPrivileges = []string{"refresh", "embed", "bind", "control", "info"}

// credential returns a new credential that by has signed. It gives the owner the privileges over
// the target, and all may be delegated.
func (a *Authority) credential(by signer, owner, target *cert.Certificate, privileges []string, expires time.Time) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.geni.net/resources/credential/2/credential.xsd"><credential xml:id="ref0"><type>privilege</type>`)
	fmt.Fprintf(&b, "<serial>%d</serial><owner_gid>%s</owner_gid><owner_urn>%s</owner_urn><target_gid>%s</target_gid><target_urn>%s</target_urn><uuid>%s</uuid><expires>%s</expires><privileges>",
		rand.Int64(), a.chainPEM(owner), html.EscapeString(owner.URN.String()), a.chainPEM(target), html.EscapeString(target.URN.String()),
		uuid.NewString(), expires.UTC().Format(time.RFC3339))
	for _, p := range privileges {
		fmt.Fprintf(&b, "<privilege><name>%s</name><can_delegate>true</can_delegate></privilege>", p)
	}
	b.WriteString("</privileges></credential><signatures/></signed-credential>\n")
	return dsig.Sign(b.Bytes(), "ref0", by.key, []*cert.Certificate{by.cert, a.root}, dsig.SignOptions{})
}
