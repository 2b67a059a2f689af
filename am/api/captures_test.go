package api

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/cert"
	"patchbay/testdata/need"
)

// TestRecordedOmni plays the calls that omni once sent to the reference
// aggregate, byte by byte and at their time, and compares the answers' shapes.
func TestRecordedOmni(t *testing.T) {
	folder := need.Shared(t, "captures", "v3")
	read := func(pattern string) []byte {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(folder, pattern))
		if len(files) != 1 {
			t.Fatalf("%s: %d files", pattern, len(files))
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// The slice credential brings its authority's certificate and the caller's.
	call, err := xmlrpc.DecodeCall(read("08-Allocate.request.xml"), xmlrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	credential := get(call.Params[1].([]xmlrpc.Value)[0], "geni_value").(string)
	gid := func(name string) []*cert.Certificate {
		m := regexp.MustCompile(`(?s)<` + name + `>(.*?)</` + name + `>`).FindStringSubmatch(credential)
		list, err := cert.ParsePEM([]byte(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	target := gid("target_gid")
	s := setting{
		began:   time.Date(2026, 11, 20, 21, 41, 30, 0, time.UTC),
		anchors: cert.NewAnchors(cert.Anchor{Certificate: target[len(target)-1]}),
		alias:   "fake-vm",
	}.site(t)
	chain := [][]byte{gid("owner_gid")[0].Raw}

	for _, tt := range []struct {
		file string
		want am.Code
	}{
		{"01-GetVersion", am.Success},
		{"04-ListResources", am.Success},
		{"06-ListResources", am.Success},
		{"08-Allocate", am.Success},
		{"10-Describe", am.Success},
		{"12-Provision", am.Success},
		{"14-PerformOperationalAction", am.Success},
		{"16-Status", am.Success},
		{"18-Describe", am.Success},
		{"20-Renew", am.Success},
		{"22-PerformOperationalAction", am.Success},
		{"24-PerformOperationalAction", am.Success},
		{"26-Delete", am.Success},
		{"28-Status", am.SearchFailed},
		{"30-Allocate", am.Success},
		{"32-Shutdown", am.Success},
		{"34-Status", am.Forbidden}, // the reference aggregate says 7
	} {
		a := s.serve(Request{ID: tt.file, Chain: chain, Body: read(tt.file + ".request.xml"), AcceptGzip: true})
		a.want(t, tt.file, tt.want)
		recorded, err := xmlrpc.DecodeResponse(read(tt.file+".response.xml"), xmlrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if tt.want != am.Forbidden {
			sameShape(t, tt.file, recorded, a.top)
		}
		s.settle()
	}
}

// sameShape checks that everything the reference aggregate answered is there
// with the same type, but for what is its own habit.
func sameShape(t *testing.T, place string, theirs, ours xmlrpc.Value) {
	t.Helper()
	if fmt.Sprintf("%T", theirs) != fmt.Sprintf("%T", ours) {
		t.Errorf("%s: theirs is %T, ours %T", place, theirs, ours)
		return
	}
	switch x := theirs.(type) {
	case xmlrpc.Struct:
		for _, m := range x {
			switch m.Name {
			case "geni_start_time", "geni_end_time", "geni_am_type", "am_code":
				continue
			}
			v, ok := ours.(xmlrpc.Struct).Get(m.Name)
			if !ok {
				t.Errorf("%s: %s is missing", place, m.Name)
				continue
			}
			sameShape(t, place+"."+m.Name, m.Value, v)
		}
	case []xmlrpc.Value:
		o := ours.([]xmlrpc.Value)
		if len(x) > 0 && len(o) == 0 {
			t.Errorf("%s: ours is empty", place)
			return
		}
		for i := range x {
			sameShape(t, fmt.Sprintf("%s[%d]", place, i), x[i], o[min(i, len(o)-1)])
		}
	}
}
