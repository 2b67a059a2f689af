package web

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am/authority"
	"patchbay/am/follow/audit"
	"patchbay/am/service"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/rspec/compile"
)

// Config has what the pages need of a site.
type Config struct {
	// Site is the name of the site's authority.
	Site string
	// URL is the URL of the pages, scheme://host:port. Requests with another Host are refused.
	URL string
	// Aggregate is the public URL of the aggregate, https://host:port, and Manager its URN.
	Aggregate string
	Manager   urn.URN
	// Authority has the members and the sessions; without it nobody can sign in.
	Authority *authority.Authority
	// Transport carries the calls of a member with this certificate chain, leaf first, from an address.
	Transport func(chain [][]byte, remote string) http.RoundTripper
	// Free returns what is available now.
	Free func() (service.Free, error)
	// Calendar returns what is held in a time, with the windows of some slices marked.
	Calendar func(from, until time.Time, mine []urn.URN) (*service.Calendar, error)
	// AheadMax is how far ahead reservations may begin, 0 for none; they begin at multiples of AheadStep if it is not 0.
	AheadMax, AheadStep time.Duration
	// CompileOptions returns the options to compile sources for the site.
	CompileOptions func() (compile.Options, error)
	// IsSimulated reports whether the nodes on a component are simulated, so nobody can log in.
	IsSimulated func(component string) bool
	// Admin has the operators' endpoints.
	Admin http.Handler
	// Who finds in the audit which slivers had an address at a time. JournalKeep is how long the journal keeps entries.
	Who         func(audit.Place, time.Time) (*audit.Answer, error)
	JournalKeep time.Duration
	// Lease and LongestLease are how long nodes last if a request does not say, and at most.
	Lease, LongestLease time.Duration
	// Revision and SliceRevision return numbers that differ after each change of the site's state, and of one slice.
	Revision      func() uint64
	SliceRevision func(slice urn.URN) (uint64, error)
	// BeginStream counts an open event stream of a caller; false means that there are too many.
	BeginStream func(ctx context.Context, caller string) (_ context.Context, end func(), ok bool)
	Now         func() time.Time
	Log         *slog.Logger
}

// Pages is the handler of all pages. It is safe for concurrent use.
type Pages struct {
	Config
	host        string // that requests must have
	cookie      string // name of the session's cookie
	isSecure    bool
	handler     http.Handler
	templates   map[string]*template.Template
	turns       turns
	checks      chan struct{} // has an entry for each text that is being checked, which may take a processor for a second
	credentials cache[credentialKey, cachedCredential]
	journals    cache[string, []operate.Entry] // the latest ones of a slice
	free        freePages
	notices     cache[string, []notice] // by session: shown on its next page
}

// audience says who may see a page.
type audience int

const (
	anyone audience = iota
	members
	operators
)

// route is one page or form. If revision is not nil, it returns a number that differs after each change of the page, and the
// path with /events has a stream of events about it. A route without serve is such a stream.
type route struct {
	pattern  string
	audience audience
	serve    func(*request) error
	revision func(*request) (uint64, error)
}

// with returns a handler that calls serve with what find finds, such as the slice of the path.
func with[T any](find func(*request) (T, error), serve func(*request, T) error) func(*request) error {
	return func(q *request) error {
		x, err := find(q)
		if err != nil {
			return err
		}
		return serve(q, x)
	}
}

//go:embed static
var static embed.FS

//go:embed templates
var templateFiles embed.FS

// New returns the pages of a site.
func New(c Config) (*Pages, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	p := &Pages{Config: c, host: u.Host, isSecure: u.Scheme == "https", templates: map[string]*template.Template{}}
	p.checks = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)) // the other processors are for other pages and calls
	p.cookie = "__Host-patchbay"
	if !p.isSecure { // cookies do not distinguish ports
		p.cookie = "patchbay-" + u.Port()
	}
	if err := p.parseTemplates(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	allRoutes := slices.Concat(freeRoutes, calendarRoutes, feedRoutes, signInRoutes, mineRoutes, startRoutes, experimentRoutes, classRoutes, todayRoutes, listRoutes, useRoutes)
	pages := map[string]route{} // by path
	for _, r := range allRoutes {
		if path, isPage := strings.CutPrefix(r.pattern, "GET "); isPage {
			pages[path] = r
		}
	}
	for _, r := range allRoutes {
		form, isForm := strings.CutPrefix(r.pattern, "POST ")
		if isForm { // its answer is live as the page with the form is
			r.revision = pages[path.Dir(form)].revision
		} else if r.revision != nil {
			events := strings.TrimSuffix(r.pattern, "/{$}") + "/events"
			mux.Handle(events, p.handle(route{events, r.audience, nil, r.revision}))
		}
		mux.Handle(r.pattern, p.handle(r))
		if _, isPage := pages[form]; isForm && !isPage { // the URL of a form, opened again
			mux.HandleFunc("GET "+form, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, path.Dir(r.URL.Path), http.StatusSeeOther)
			})
		}
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /ui/static/", http.StripPrefix("/ui/static/", cacheable(http.FileServerFS(files))))
	mux.Handle("GET /favicon.ico", http.RedirectHandler("/ui/static/icon.svg", http.StatusFound))
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	mux.Handle("/", p.handle(route{"/", anyone, func(*request) error {
		return &problem{http.StatusNotFound, "There is no such page", "Check its address, or choose a page above."}
	}, nil}))
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(p.handle(route{"/", anyone, func(*request) error {
		return &problem{http.StatusForbidden, "This form was sent by another site", "Open the page here, and send its form again."}
	}, nil}))
	p.handler = protection.Handler(mux)
	return p, nil
}

// parseTemplates makes one template of each page with the layout.
func (p *Pages) parseTemplates() error {
	layout, err := template.New("").Funcs(p.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	for _, f := range files {
		name := strings.TrimSuffix(path.Base(f), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, failed := layout.Clone()
		if failed == nil {
			_, failed = t.ParseFS(templateFiles, f)
		}
		p.templates[name], err = t, errors.Join(err, failed)
	}
	return err
}

// assetVersion returns a text that differs after a change of the style or the script.
func assetVersion() string {
	h := sha256.New()
	for _, name := range []string{"static/style.css", "static/script.js"} {
		text, _ := static.ReadFile(name) // embedded
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// cacheable lets browsers keep the style and the script, whose URLs in pages have their version.
func cacheable(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		h.ServeHTTP(w, r)
	})
}

const contentPolicy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// ServeHTTP answers a request of a browser. It refuses other names of the host, which a hostile site
// may have given to this address.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if p.isSecure {
		h.Set("Strict-Transport-Security", "max-age=86400")
	}
	if !strings.EqualFold(r.Host, p.host) {
		http.Error(w, fmt.Sprintf("These pages are at %s. To use another name, the operator sets web.public_url in patchbay.yaml.", p.URL), http.StatusMisdirectedRequest)
		return
	}
	p.handler.ServeHTTP(w, r)
}

// handle returns the handler of a route: it finds the visitor, waits for a turn and shows errors. A stream has no turn, since
// it stays open.
func (p *Pages) handle(x route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Pages: p, w: w, r: r, now: p.Now()}
		err := q.readVisitor()
		if err == nil {
			err = q.check(x.audience)
		}
		if err == nil && x.serve != nil {
			var end func()
			if end, err = p.turns.take(r.Context(), q.caller()); err == nil {
				defer end()
			}
		}
		if err == nil && x.revision != nil { // before the page is made, so that the stream reports all later changes
			if q.Page = r.URL.Path; r.Method == http.MethodPost {
				q.Page = path.Dir(q.Page)
			}
			q.Live = strings.TrimSuffix(q.Page, "/") + "/events?" + r.URL.RawQuery
			q.Version, err = x.revision(q)
		}
		switch {
		case err != nil:
		case x.serve != nil:
			err = x.serve(q)
		default:
			err = q.stream(x.revision)
		}
		if err != nil {
			q.fail(err)
		}
		if r.Method != http.MethodGet {
			p.Log.Info("page", "form", x.pattern, "remote", r.RemoteAddr, "visitor", q.caller(), "error", err)
		}
	})
}

// gzipWriters are used again, since each has a large buffer.
var gzipWriters = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }}

// send writes a page, compressed if the browser accepts that. A page that browsers may keep is sent only if it has changed.
func (q *request) send(status int, contentType string, body []byte) error {
	h := q.w.Header()
	h.Set("Content-Type", contentType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("Vary", "Accept-Encoding, Cookie")
	if h.Get("Cache-Control") == "no-cache" {
		tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(body))
		if h.Set("ETag", tag); strings.Contains(q.r.Header.Get("If-None-Match"), tag) {
			q.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if !strings.Contains(q.r.Header.Get("Accept-Encoding"), "gzip") {
		q.w.WriteHeader(status)
		q.w.Write(body) // an error means that the browser has gone
		return nil
	}
	h.Set("Content-Encoding", "gzip")
	q.w.WriteHeader(status)
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(q.w)
	z.Write(body)
	z.Close()
	return nil
}
