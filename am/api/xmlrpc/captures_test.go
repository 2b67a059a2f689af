package xmlrpc

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// TestCaptures decodes recorded calls and answers of a real client, encodes them, and decodes the
// result.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "captures"), "*", "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var requests, responses int
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(file, ".request.xml"):
			requests++
			c, err := DecodeCall(in, Limits{})
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if name := strings.TrimSuffix(file, ".request.xml"); !strings.HasSuffix(name, "-"+c.Method) {
				t.Errorf("%s calls %s", file, c.Method)
			}
			b, err := AppendCall(nil, c)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if again, err := DecodeCall(b, Limits{}); err != nil || !reflect.DeepEqual(c, again) {
				t.Errorf("%s: came back different, %v", file, err)
			}
		case strings.HasSuffix(file, ".response.xml"):
			responses++
			v, err := DecodeResponse(in, Limits{})
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			// One aggregate answers a dateTime, which we decode but never encode.
			for i, m := range v.(Struct) {
				if at, ok := m.Value.(time.Time); ok {
					v.(Struct)[i].Value = at.Format(time.RFC3339)
				}
			}
			b, err := AppendResponse(nil, v)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if again, err := DecodeResponse(b, Limits{}); err != nil || !reflect.DeepEqual(v, again) {
				t.Errorf("%s: came back different, %v", file, err)
			}
		}
	}
	if requests == 0 || responses == 0 {
		t.Errorf("found %d requests and %d responses", requests, responses)
	}
}
