package cert

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// distinguished begins with the most general step. Most steps have one attribute.
type distinguished [][]attribute

// attribute has the value in text if isText is true. der is the value in DER; "" if the
// attribute was not read from DER.
type attribute struct {
	oid    string
	text   string
	isText bool
	der    string
}

// attributeNames has the short names of openssl, by OID.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
	"2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
	"2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials", "2.5.4.46": "dnQualifier",
	"2.5.4.65": "pseudonym", "2.5.4.97": "organizationIdentifier", "0.9.2342.19200300.100.1.1": "UID",
	"0.9.2342.19200300.100.1.25": "DC", "1.2.840.113549.1.9.1": "emailAddress", "1.2.840.113549.1.9.2": "unstructuredName",
}

// attributeOIDs has names in lower case.
var attributeOIDs = func() map[string]string {
	m := make(map[string]string, len(attributeNames))
	for oid, name := range attributeNames {
		m[strings.ToLower(name)] = oid
	}
	return m
}()

func readDN(der []byte) (distinguished, error) {
	malformed := errors.New("malformed name")
	in := cryptobyte.String(der)
	var steps cryptobyte.String
	if !in.ReadASN1(&steps, cbasn1.SEQUENCE) || !in.Empty() {
		return nil, malformed
	}
	var name distinguished
	for !steps.Empty() {
		var set cryptobyte.String
		if !steps.ReadASN1(&set, cbasn1.SET) {
			return nil, malformed
		}
		var step []attribute
		for !set.Empty() {
			var pair cryptobyte.String
			var oid asn1.ObjectIdentifier
			if !set.ReadASN1(&pair, cbasn1.SEQUENCE) || !pair.ReadASN1ObjectIdentifier(&oid) {
				return nil, malformed
			}
			a := attribute{oid: oid.String()}
			if !a.read(pair) {
				return nil, malformed
			}
			step = append(step, a)
		}
		name = append(name, step)
	}
	return name, nil
}

func (a *attribute) read(der cryptobyte.String) bool {
	a.der = string(der)
	var value cryptobyte.String
	var tag cbasn1.Tag
	if !der.ReadAnyASN1(&value, &tag) || !der.Empty() {
		return false
	}
	a.text, a.isText = readString(tag, value)
	return true
}

// readString decodes a value; false means that its type is not a string type of names.
func readString(tag cbasn1.Tag, b []byte) (string, bool) {
	const numeric, visible, bmp = cbasn1.Tag(18), cbasn1.Tag(26), cbasn1.Tag(30)
	switch tag {
	case cbasn1.UTF8String, cbasn1.PrintableString, cbasn1.IA5String, numeric, visible:
		return string(b), utf8.Valid(b)
	case cbasn1.T61String: // decoded as Latin 1, as other software does
		runes := make([]rune, len(b))
		for i, c := range b {
			runes[i] = rune(c)
		}
		return string(runes), true
	case bmp:
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
		}
		return string(utf16.Decode(units)), len(b)%2 == 0
	}
	return "", false
}

// key returns equal texts for equal names. The string types of the values do not matter.
func (d distinguished) key() string {
	var b strings.Builder
	for _, step := range d {
		texts := make([]string, len(step))
		for i, a := range step {
			if a.isText {
				texts[i] = fmt.Sprintf("%s=%q", a.oid, a.text)
			} else {
				texts[i] = fmt.Sprintf("%s=#%x", a.oid, a.der)
			}
		}
		slices.Sort(texts)
		b.WriteString(strings.Join(texts, "+") + "\n")
	}
	return b.String()
}

// nameKey returns the key of a name in DER, or "" if the name is malformed.
func nameKey(der []byte) string {
	d, err := readDN(der)
	if err != nil {
		return ""
	}
	return d.key()
}

// String formats a name as openssl does with -nameopt RFC2253.
func (d distinguished) String() string {
	var steps []string
	for _, step := range slices.Backward(d) {
		var pairs []string
		for _, a := range slices.Backward(step) {
			pairs = append(pairs, a.String())
		}
		steps = append(steps, strings.Join(pairs, "+"))
	}
	return strings.Join(steps, ",")
}

// String returns type=value. It writes the value in DER if the type is unknown or the value
// is not a string.
func (a attribute) String() string {
	kind, known := attributeNames[a.oid]
	if !known {
		kind = a.oid
	}
	var b strings.Builder
	b.WriteString(kind + "=")
	if !known || !a.isText {
		return b.String() + "#" + strings.ToUpper(hex.EncodeToString([]byte(a.der)))
	}
	for i := range len(a.text) {
		c := a.text[i]
		switch {
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%02X`, c)
		case strings.IndexByte(`,+"\<>;`, c) >= 0, i == 0 && (c == '#' || c == ' '), i == len(a.text)-1 && c == ' ':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var (
	dnType = regexp.MustCompile(`^[ \t]*([A-Za-z]+|[0-9]+(?:\.[0-9]+)+)[ \t]*=[ \t]*`)
	dnHex  = regexp.MustCompile(`^#((?:[0-9A-Fa-f]{2})+)[ \t]*`)
)

// parseDN accepts the format of String, with blanks around types and values.
func parseDN(s string) (distinguished, error) {
	var name distinguished
	var step []attribute
	for {
		m := dnType.FindStringSubmatch(s)
		if m == nil {
			return nil, fmt.Errorf("%.60q does not begin with a type such as CN=", s)
		}
		s = s[len(m[0]):]
		a := attribute{oid: m[1]}
		if m[1][0] > '9' {
			var known bool
			if a.oid, known = attributeOIDs[strings.ToLower(m[1])]; !known {
				return nil, fmt.Errorf("%s is not a known type of attribute; write its number instead", m[1])
			}
		}
		var err error
		if s, err = a.parseValue(s); err != nil {
			return nil, err
		}
		step = append(step, a)
		if s != "" && s[0] == '+' {
			s = s[1:]
			continue
		}
		slices.Reverse(step)
		name, step = append(name, step), nil
		if s == "" {
			slices.Reverse(name)
			return name, nil
		}
		s = s[1:] // a comma
	}
}

// parseValue sets the value that s begins with. It returns the remaining text, which is "" or
// begins with a comma or a plus sign.
func (a *attribute) parseValue(s string) (remaining string, err error) {
	if m := dnHex.FindStringSubmatch(s); m != nil {
		der, _ := hex.DecodeString(m[1])
		if remaining = s[len(m[0]):]; !a.read(der) || remaining != "" && remaining[0] != ',' && remaining[0] != '+' {
			return "", fmt.Errorf("%.40q is not a value in hexadecimal", s)
		}
		return remaining, nil
	}
	a.isText = true
	var b []byte
	kept := 0 // white space before this index belongs to the value
	i := 0
	for ; i < len(s) && s[i] != ',' && s[i] != '+'; i++ {
		switch c := s[i]; {
		case c == '\\' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			n, _ := hex.DecodeString(s[i+1 : i+3])
			b = append(b, n...)
			i += 2
			kept = len(b)
		case c == '\\' && i+1 < len(s):
			b = append(b, s[i+1])
			i++
			kept = len(b)
		case strings.IndexByte(`\"<>;`, c) >= 0:
			return "", fmt.Errorf("%q must be written \\%c in a name", c, c)
		case c == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t'):
			return "", errors.New(`"#" after a blank looks like a comment: write \# if it belongs to the name, and write a comment on a line of its own`)
		default:
			b = append(b, c)
		}
	}
	a.text = string(b[:max(kept, len(strings.TrimRight(string(b), " \t")))])
	return s[i:], nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
