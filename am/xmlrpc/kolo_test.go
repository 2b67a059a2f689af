package xmlrpc

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"
	"strings"
	"testing"

	kolo "github.com/kolo/xmlrpc"
)

// TestAgainstAnotherEncoder: what kolo/xmlrpc writes of a value is read here
// as that value, and as what this package itself would have written.
func TestAgainstAnotherEncoder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		v := randomValue(rnd, 4)
		theirs, err := kolo.EncodeMethodCall("M", forKolo(v))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCall(theirs, Limits{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, theirs)
		}
		if want := (Call{"M", []Value{v}}); !reflect.DeepEqual(byName(got.Params[0]), byName(v)) {
			t.Fatalf("got %#v, want %#v", got, want)
		}
		ours, err := AppendCall(nil, Call{"M", []Value{v}})
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeCall(ours, Limits{})
		if err != nil || !reflect.DeepEqual(byName(again.Params[0]), byName(got.Params[0])) {
			t.Fatalf("both encoders differ for %#v: %v", v, err)
		}
	}
}

// TestAgainstAnotherDecoder: what this package writes is read by kolo/xmlrpc.
func TestAgainstAnotherDecoder(t *testing.T) {
	b, err := AppendResponse(nil, Struct{{"code", Struct{{"geni_code", 3}}}, {"output", "né <go>\r\n"}, {"value", []Value{"a", "b"}}, {"on", true}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Code struct {
			GeniCode int `xmlrpc:"geni_code"`
		} `xmlrpc:"code"`
		Output string   `xmlrpc:"output"`
		Value  []string `xmlrpc:"value"`
		On     bool     `xmlrpc:"on"`
	}
	if err := kolo.Response(b).Unmarshal(&got); err != nil {
		t.Fatal(err)
	}
	if got.Code.GeniCode != 3 || got.Output != "né <go>\r\n" || !reflect.DeepEqual(got.Value, []string{"a", "b"}) || !got.On {
		t.Errorf("got %+v", got)
	}
	err = kolo.Response(AppendFault(nil, &Fault{FaultMethod, "no such method"})).Err()
	if want := (kolo.FaultError{Code: FaultMethod, String: "no such method"}); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

func randomValue(rnd *rand.Rand, depth int) Value {
	kinds := 4
	if depth > 1 {
		kinds = 6
	}
	switch rnd.IntN(kinds) {
	case 0:
		return int(int32(rnd.Uint32()))
	case 1:
		return rnd.IntN(2) == 0
	case 2:
		return rnd.NormFloat64()
	case 3:
		const letters = "aZ0 <>&'\"\n\t\ré\U0001F600]]>"
		rs := []rune(letters)
		var s strings.Builder
		for range rnd.IntN(12) {
			s.WriteRune(rs[rnd.IntN(len(rs))])
		}
		return s.String()
	case 4:
		a := []Value{}
		for range rnd.IntN(4) {
			a = append(a, randomValue(rnd, depth-1))
		}
		return a
	default:
		s := Struct{}
		for i := range rnd.IntN(4) {
			s = append(s, Member{fmt.Sprint("m", i), randomValue(rnd, depth-1)})
		}
		return s
	}
}

// forKolo gives v the types that kolo/xmlrpc encodes.
func forKolo(v Value) any {
	switch v := v.(type) {
	case Struct:
		m := map[string]any{}
		for _, e := range v {
			m[e.Name] = forKolo(e.Value)
		}
		return m
	case []Value:
		a := make([]any, len(v))
		for i := range v {
			a[i] = forKolo(v[i])
		}
		return a
	}
	return v
}

// byName puts members in order, since kolo/xmlrpc writes them in any.
func byName(v Value) Value {
	switch v := v.(type) {
	case Struct:
		s := Struct{}
		for _, e := range v {
			s = append(s, Member{e.Name, byName(e.Value)})
		}
		sort.Slice(s, func(i, j int) bool { return s[i].Name < s[j].Name })
		return s
	case []Value:
		a := []Value{}
		for _, e := range v {
			a = append(a, byName(e))
		}
		return a
	}
	return v
}

// benchCall is like a large Allocate: credentials and a request, 2.2 MB.
func benchCall() Call {
	text := strings.Repeat("<node client_id=\"n0\" exclusive=\"false\">\n  <sliver_type name=\"container\"/>\n</node>\n", 12_000)
	cred := Struct{{"geni_type", "geni_sfa"}, {"geni_version", "3"}, {"geni_value", text}}
	return Call{"Allocate", []Value{"urn:publicid:IDN+example.org+slice+s", []Value{cred}, text, Struct{}}}
}

func BenchmarkEncode(b *testing.B) {
	c := benchCall()
	b.Run("patchbay", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			var err error
			if buf, err = AppendCall(buf[:0], c); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
		b.ReportAllocs()
	})
	b.Run("kolo", func(b *testing.B) {
		args := forKolo(c.Params).([]any)
		n := 0
		for b.Loop() {
			out, err := kolo.EncodeMethodCall(c.Method, args...)
			if err != nil {
				b.Fatal(err)
			}
			n = len(out)
		}
		b.SetBytes(int64(n))
		b.ReportAllocs()
	})
}

func BenchmarkDecode(b *testing.B) {
	c := benchCall()
	large, err := AppendCall(nil, c)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("patchbay/call", func(b *testing.B) {
		b.SetBytes(int64(len(large)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeCall(large, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	answer, err := AppendResponse(nil, c.Params)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("patchbay/answer", func(b *testing.B) {
		b.SetBytes(int64(len(answer)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeResponse(answer, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("kolo/answer", func(b *testing.B) {
		b.SetBytes(int64(len(answer)))
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := kolo.Response(answer).Unmarshal(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
