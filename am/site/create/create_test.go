package create

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

func TestInstanceNames(t *testing.T) {
	for authority, want := range map[string]string{
		"demo.example.org": "demo", "Testbed-of-Ours.example.org": "testbed-of", "example.org:sub": "example", "-_-.example.org": "site", "a_b.example.org": "ab", "x": "x",
	} {
		a, b := instanceName(authority), instanceName(authority)
		if len(a) > 16 || !regexp.MustCompile("^"+want+"-[0-9a-f]{4}$").MatchString(a) {
			t.Errorf("%s: %s, want %s-….", authority, a, want)
		}
		if a == b && a == instanceName(authority) {
			t.Errorf("%s: always %s", authority, a)
		}
	}
}

// TestTheTwoServerCertificatesHaveDifferentSubjects guards against a misleading error. A Java
// client that trusts one of two certificates with the same subject, and gets the other, reports
// "signature check failed" instead of an unknown certificate.
func TestTheTwoServerCertificatesHaveDifferentSubjects(t *testing.T) {
	var subjects []string
	for _, kind := range []string{"ecdsa", "rsa"} {
		text, _, err := newServerCertificate(kind, urn.MustParse("urn:publicid:IDN+example.org+authority+cm"), []string{"testbed.example.org"}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if subjects = append(subjects, c.Subject.String()); c.Subject.CommonName != "testbed.example.org" || c.Issuer.String() != c.Subject.String() {
			t.Errorf("%s: subject %s, issuer %s", kind, c.Subject, c.Issuer)
		}
	}
	if subjects[0] == subjects[1] {
		t.Errorf("both have the subject %s", subjects[0])
	}
}

// TestSampleRequestsNameTheirSchema checks xsi:schemaLocation, without which GENI's stitcher.py
// refuses a request.
func TestSampleRequestsNameTheirSchema(t *testing.T) {
	demo, err := os.ReadFile("../../../cmd/patchbay/experimenter/testdata/demo.xml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"simulated": string(sampleRequest), "local": localRequest, "demo": string(demo)} {
		if !strings.Contains(text, `xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd"`) {
			t.Errorf("the request of %s has no xsi:schemaLocation:\n%s", name, text)
		}
		if found, err := xmltree.Validate([]byte(text), "", xmltree.Limits{}); err != nil || len(found) > 0 {
			t.Errorf("the request of %s is not valid: %v %v", name, err, found)
		}
	}
}

func TestHostFacts(t *testing.T) {
	for host, want := range map[string]string{
		"lab7.example.org": "lab7", "Lab7": "lab7", "": "host1", "-x": "host1", "a_b.example.org": "host1", strings.Repeat("x", 64): "host1",
	} {
		if got := componentName(host); got != want {
			t.Errorf("%q is called %q, want %q", host, got, want)
		}
	}
	h := describeHost(t.Context())
	if h.Cores < 1 || h.Memory < 64<<20 || h.Disk <= 0 || h.Name == "" || !slices.Contains(h.Features, "disk.0.os.name=linux") {
		t.Errorf("%+v", h)
	}
	if freeDisk("/none/such") != 0 {
		t.Error("disk of nothing")
	}
}
