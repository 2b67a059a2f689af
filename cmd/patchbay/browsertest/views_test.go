package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"patchbay/am/client/experiment"
)

// eachView opens each page of a site that is in use, and calls look with its name.
func eachView(t *testing.T, look func(name string, p *tab)) {
	t.Helper()
	change := func(t testing.TB, dir string) {
		withFailure(t, dir)
		withLogins(t, dir)
	}
	s := newSite(t, change, []string{"user", "alice"}, []string{"user", "bob"})
	links := s.addClass()
	s.up("alice", "lab", experiment.Example, false)
	s.up("bob", "broken", request("raw-pc:bad:pc20", "vm:good"), true)
	s.patchbay("maintenance", "pc5..pc8", "--from", "48h", "--for", "2h", "--reason", "new switches")
	s.patchbay("drain", "pc9", "--reason", "its fan is loud")

	visitor := newTab(t, s.at.Pages)
	s.upAt("bob", "later", request("raw-pc:a:pc10", "raw-pc:b:pc3", "vm:c"), 20*time.Hour, 60*time.Hour)
	s.upAt("alice", "course", request("raw-pc:a:pc11", "raw-pc:b:pc4"), 72*time.Hour, 100*time.Hour)
	for name, path := range map[string]string{"free": "/ui/", "calendar": "/ui/calendar", "calendar-month": "/ui/calendar?days=30", "calendar-day": "/ui/calendar?days=1", "sign-in": "/ui/sign-in"} {
		visitor.open(path)
		look(name, visitor)
	}
	visitor.open(link.FindString(links["student2"]))
	look("sign-in-link", visitor)
	visitor.expect("404")
	visitor.open("/ui/nothing")
	look("problem", visitor)

	student := s.signIn(links["student1"])
	look("mine-class", student)
	student.press("Start lab1")
	look("start-class", student)
	student.expect("422")
	student.press("Start")
	student.see("You have no SSH key")
	student.press("Start without a key")
	student.see("1 node: 1 ready")

	alice := s.member("alice")
	look("mine", alice)
	alice.press("course")
	alice.see("2 nodes")
	look("experiment-ahead", alice)
	alice.press("Calendar")
	look("calendar-mine", alice)
	alice.press("Mine")
	alice.press("lab")
	alice.see("2 nodes: 2 ready")
	look("experiment", alice)
	alice.open("/ui/start")
	look("start", alice)
	alice.fill("The request", experiment.Example+"<x/>")
	alice.see("Line ")
	look("start-mistake", alice)
	bob := s.member("bob")
	bob.press("broken")
	bob.see("1 failed")
	look("experiment-failed", bob)
	bob.press("End experiment…")
	look("experiment-end", bob)

	teacher := s.signIn(links["teacher"])
	teacher.press("Class")
	look("class", teacher)
	operator := s.operator()
	look("today", operator)
	for _, v := range []struct{ name, path string }{
		{"slices", "/ui/operator/slices"}, {"slice", "/ui/operator/slice?urn=urn:publicid:IDN%2btestbed.example.org%2bslice%2blab"}, {"nodes", "/ui/operator/nodes"},
		{"members", "/ui/operator/members"}, {"who", "/ui/operator/who?address=192.0.2.1"}, {"use", "/ui/operator/use"}, {"journal", "/ui/operator/journal"},
	} {
		operator.open(v.path)
		look(v.name, operator)
	}
}

func TestWebAccessible(t *testing.T) {
	t.Parallel()
	program := axe(t)
	eachView(t, func(name string, p *tab) { p.accessible(name, program) })
}

// TestWebPictures makes pictures of all pages. With -update it also makes those of README.md.
func TestWebPictures(t *testing.T) {
	t.Parallel()
	eachView(t, func(name string, p *tab) {
		p.pictures(name)
		if *update && (name == "free" || name == "experiment") {
			p.show(1000, "light")
			p.do(chromedp.Reload())
			if err := os.WriteFile("../guide/pages-"+name+".png", reduceColors(t, p.picture()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// reduceColors returns a PNG with the 256 colors that it uses most, which makes it smaller.
func reduceColors(t *testing.T, text []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	counts, box := map[color.Color]int{}, from.Bounds()
	for i := range box.Dx() * box.Dy() {
		counts[from.At(i%box.Dx(), i/box.Dx())]++
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	to := image.NewPaletted(box, colors[:min(len(colors), 256)])
	draw.Draw(to, box, from, image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, to); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
