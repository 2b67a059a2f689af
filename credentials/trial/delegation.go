package trial

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// Delegate delegates a credential of a user to a new owner, which is another user or a
// tool. chain is the new owner's certificate chain in PEM. The user signs the new
// credential. It contains only the privileges that may be delegated, and the new owner
// cannot delegate them further. expires must not be after the expiry of the delegated
// credential; zero means the same expiry.
func Delegate(credential []byte, user User, chain []byte, expires time.Time) ([]byte, error) {
	parent, err := readParent(credential, user)
	if err != nil {
		return nil, fmt.Errorf("cannot delegate: %w", err)
	}
	if expires.IsZero() {
		expires = parent.expires
	}
	if expires.After(parent.expires) {
		return nil, fmt.Errorf("cannot delegate: the credential itself expires earlier, %s", parent.expires.Format(time.RFC3339))
	}
	list, err := cert.ParsePEM(chain)
	if err != nil {
		return nil, fmt.Errorf("cannot delegate: the certificate of the new owner: %w", err)
	}
	owner := list[0].URN
	if owner.IsZero() {
		return nil, errors.New("cannot delegate: the certificate of the new owner contains no URN")
	}
	var b bytes.Buffer
	b.Write(credential[:parent.start])
	id := parent.unusedID()
	fmt.Fprintf(&b, `<credential xml:id="%s"><type>privilege</type><serial>%d</serial><owner_gid>%s</owner_gid><owner_urn>%s</owner_urn><target_gid>%s</target_gid><target_urn>%s</target_urn><uuid>%s</uuid><expires>%s</expires><privileges>`,
		id, rand.Int32(), encodeChain(list), html.EscapeString(owner.String()), html.EscapeString(strings.TrimSpace(parent.TargetGID)),
		html.EscapeString(strings.TrimSpace(parent.TargetURN)), uuid.NewString(), expires.UTC().Format(time.RFC3339))
	given := 0
	for _, p := range parent.Privileges {
		if p.CanDelegate == "true" || p.CanDelegate == "1" {
			fmt.Fprintf(&b, "<privilege><name>%s</name><can_delegate>false</can_delegate></privilege>", html.EscapeString(p.Name))
			given++
		}
	}
	if given == 0 {
		return nil, errors.New("cannot delegate: no privilege of the credential may be delegated")
	}
	b.WriteString("</privileges><parent>")
	b.Write(credential[parent.start:parent.end])
	b.WriteString("</parent></credential>")
	b.Write(credential[parent.end:])
	return user.sign(b.Bytes(), id)
}

type parent struct {
	TargetGID  string `xml:"target_gid"`
	TargetURN  string `xml:"target_urn"`
	Expires    string `xml:"expires"`
	OwnerURN   string `xml:"owner_urn"`
	Privileges []struct {
		Name        string `xml:"name"`
		CanDelegate string `xml:"can_delegate"`
	} `xml:"privileges>privilege"`

	expires    time.Time
	ids        []string
	start, end int64 // byte offsets of its element in the document
}

// readParent reads the credential that is delegated. It fails unless the credential is signed and
// belongs to owner. It does not verify the signer's certificate.
func readParent(document []byte, owner User) (parent, error) {
	chain, err := dsig.Verify(document, dsig.Options{SHA1: true})
	if err != nil {
		return parent{}, fmt.Errorf("the credential %w", err)
	}
	var p parent
	if err := xml.Unmarshal(chain[0].Canonical, &p); err != nil {
		return parent{}, err
	}
	if u, err := urn.Parse(strings.TrimSpace(p.OwnerURN)); err != nil || !u.Equal(owner.URN) {
		return parent{}, fmt.Errorf("the credential belongs to %s, not to %s", p.OwnerURN, owner.URN)
	}
	if p.expires, err = time.Parse(time.RFC3339, strings.TrimSpace(p.Expires)); err != nil {
		return parent{}, fmt.Errorf("the credential has an invalid expiry time: %w", err)
	}
	for _, signed := range chain {
		p.ids = append(p.ids, signed.ID)
	}
	p.start, p.end, err = findCredential(document)
	return p, err
}

// findCredential returns the byte offsets of the outermost credential. A delegation
// copies these bytes unchanged, since their signature must stay valid.
func findCredential(document []byte) (start, end int64, err error) {
	d := xml.NewDecoder(bytes.NewReader(document))
	depth := 0
	for {
		before := d.InputOffset()
		token, err := d.RawToken()
		if err != nil {
			return 0, 0, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth == 1 && t.Name.Local == "credential" {
				start = before
			}
			depth++
		case xml.EndElement:
			depth--
			if depth == 1 && t.Name.Local == "credential" {
				return start, d.InputOffset(), nil
			}
		}
	}
}

func (p parent) unusedID() string {
	for i := 1; ; i++ {
		if id := fmt.Sprint("ref", i); !slices.Contains(p.ids, id) {
			return id
		}
	}
}
