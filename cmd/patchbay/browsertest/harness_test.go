package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

var update = flag.Bool("update", false, "write the pictures of README.md")

// cache is the folder for axe-core and pictures.
const cache = "../../../.cache"

func TestMain(m *testing.M) { program.Main(m, func() { endBrowser() }) }

// endBrowser ends chromium, waits for its end and removes its files.
var endBrowser = func() {}

// browser starts chromium, once for all tests. A test has its own tabs and cookies.
var browser = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.IgnoreCertErrors,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	endBrowser = end
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx)
})

// tab is a tab of chromium with its own cookies: a person at the pages of a site.
type tab struct {
	t   testing.TB
	ctx context.Context
	url string // of the site: scheme, host and port

	mu       sync.Mutex
	problems []string
	expected []string // parts of problems that the test causes
}

// newTab opens a tab for the pages at url. When the test ends, newTab fails it for each error that the
// browser has reported, such as a violation of the Content-Security-Policy, except for expected ones.
func newTab(t testing.TB, url string) *tab {
	t.Helper()
	require.Tool(t, "chromium")
	root, err := browser()
	if err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	p := &tab{t: t, url: url}
	var end context.CancelFunc
	p.ctx, end = chromedp.NewContext(root, chromedp.WithNewBrowserContext())
	messages := chromedp.Console(p.ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for m, err := range messages {
			if err == nil && (m.IsException() || m.Type == "error" || m.Type == "warning") {
				p.mu.Lock()
				p.problems = append(p.problems, fmt.Sprintf("%s %s:%d: %s", m.Type, m.URL, m.Line+1, m.Text))
				p.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			where, _ := chromedp.Run(p.ctx, chromedp.Location())
			text, _ := ask[string](p, "document.body.innerText")
			t.Logf("the page at the end, %s:\n%s", where, text)
		}
		end()
		reader.Wait()
		for _, problem := range p.problems {
			if !slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(problem, part) }) {
				t.Errorf("chromium reports: %s", problem)
			}
		}
	})
	return p
}

// expect names a part of errors of the browser that the test causes.
func (p *tab) expect(part string) { p.expected = append(p.expected, part) }

//go:embed testdata/find.js
var find string

// ask returns the value of an expression in the page. It may use the functions of find.js.
func ask[T any](p *tab, expression string, args ...any) (T, error) {
	texts := make([]any, len(args))
	for i, x := range args {
		b, err := json.Marshal(x)
		if err != nil {
			p.t.Fatal(err)
		}
		texts[i] = string(b)
	}
	ctx, end := context.WithTimeout(p.ctx, time.Minute)
	defer end()
	script := "(async () => {" + find + "\nreturn " + fmt.Sprintf(expression, texts...) + "})()"
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// until waits until an expression, which is a function of find.js, returns no problem.
func (p *tab) until(expression string, args ...any) {
	p.t.Helper()
	wait.Clear(p.t, func() string {
		problem, err := ask[string](p, expression, args...)
		if err != nil { // between two pages
			return err.Error()
		}
		return problem
	})
}

// open opens a page of the site, or a whole URL.
func (p *tab) open(path string) {
	p.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = p.url + path
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate(path)); err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
}

// see waits until the page shows texts.
func (p *tab) see(texts ...string) {
	p.t.Helper()
	p.until("see(%s)", texts)
}

// miss waits until the page shows none of the texts.
func (p *tab) miss(texts ...string) {
	p.t.Helper()
	p.until("miss(%s)", texts)
}

// press waits for a link, a button or the summary of details that can be used and has this text, and
// clicks it. If it leads to another page, press waits until that page is loaded.
func (p *tab) press(text string) {
	p.t.Helper()
	p.pressIn("", text)
}

// pressIn is press in the smallest row, item or section of the page that also shows the text scope.
func (p *tab) pressIn(scope, text string) {
	p.t.Helper()
	p.until("press(%s, %s)", scope, text)
	p.until("arrived()")
}

// fill enters a value into the field with a label, chooses the option of a list, or ticks a box; it unticks the box if
// the value is no.
func (p *tab) fill(label, value string) {
	p.t.Helper()
	p.fillIn("", label, value)
}

// fillIn is fill in the smallest row, item or section of the page that also shows the text scope.
func (p *tab) fillIn(scope, label, value string) {
	p.t.Helper()
	p.until("fill(%s, %s, %s)", scope, label, value)
}

// get returns the value of an expression in the page.
func get[T any](p *tab, expression string, args ...any) T {
	p.t.Helper()
	v, err := ask[T](p, expression, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// do runs steps of chromedp.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// show sets the width of the window and the scheme of colors, light or dark.
func (p *tab) show(width int64, scheme string) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, 600))
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		p.t.Fatal(err)
	}
}

// picture returns a picture of the whole page as PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// pictures writes pictures of the page into .cache/screenshots: narrow and wide, light and dark. It
// fails if the narrow page must be scrolled to the side.
func (p *tab) pictures(name string) {
	p.t.Helper()
	dir := filepath.Join(cache, "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	for _, width := range []int64{1280, 360} {
		for _, scheme := range []string{"light", "dark"} {
			p.show(width, scheme)
			if wide := get[[]string](p, "tooWide()"); len(wide) > 0 {
				p.t.Errorf("%s: the page is wider than %d pixels, because of %s", name, width, strings.Join(wide, ", "))
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), p.picture(), 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// axe returns the program axe-core. It skips the test if make test-web could not fetch it.
func axe(t testing.TB) string {
	t.Helper()
	files, _ := filepath.Glob(cache + "/axe-core@*/node_modules/axe-core/axe.min.js")
	if len(files) == 0 {
		require.Missing(t, "axe-core", "axe-core is not in .cache; make test-web fetches it with npm")
	}
	return program.ReadFile(t, slices.Max(files))
}

// accessible fails the test for each serious or critical finding of axe-core on the page, light and dark.
func (p *tab) accessible(name, axe string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[chromedp.Void](axe)); err != nil {
		p.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.show(1280, scheme)
		for _, finding := range get[[]string](p, "await findings(%s)", scheme == "dark") {
			p.t.Errorf("%s, %s: %s", name, scheme, finding)
		}
	}
}
