package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits of one call, unless the provider's metadata says otherwise, and the
// longest it may say.
const (
	DescribeTimeout = 10 * time.Second
	GetTimeout      = 60 * time.Second
	SetTimeout      = 10 * time.Second
	maxTimeout      = 10 * time.Minute
)

// MaxNames is how many resources one process is asked about; longer lists are split.
const MaxNames = 1000

// Suffix is what the file name of a provider ends in.
const Suffix = ".prov"

// Provider is one executable that was found fit to use. Its methods may be
// called from any goroutine.
type Provider struct {
	// Name is what the inventory calls it.
	Name string
	// Type is the type of the resources it makes.
	Type string
	Desc string
	// Path is the executable, Dir its folder and working directory; both absolute.
	Path, Dir string
	// Parallel is how many sets may run at once, at least 1, beside one dry run;
	// Set sees to it.
	Parallel int
	// Probe says that a dry run (Set with noop) before a promise is worth its time.
	Probe      bool
	Attributes map[string]Attribute
	// Log receives what the provider writes to standard error; nil is slog.Default.
	// It must not be changed once calls are made.
	Log *slog.Logger
	// Trace is shown what each get and set that ended well wrote to standard
	// output, before that is judged; nil shows nobody. It must not be changed once
	// calls are made, and may be called at the same time.
	Trace func(action string, out []byte)
	// Ended is called after each get and set that was not cancelled, with its duration
	// and why it failed as a whole; nil is not called. It must not be changed once calls
	// are made, and may be called at the same time.
	Ended func(action string, took time.Duration, err error)

	get, set, describe time.Duration
	actions            []string
	running            chan struct{} // a place for each set that may run
	talking            chan struct{} // the place of the dry run that may run beside them
}

// Attribute is one attribute as the provider declared it.
type Attribute struct {
	Desc string
	Type Type
	// Kind is r for read-only, w for write-only, or rw.
	Kind string
}

// Has tells whether the provider declares the attribute at all; what it does
// not declare is never sent, so ask before promising it.
func (p *Provider) Has(attribute string) bool {
	_, ok := p.Attributes[attribute]
	return ok
}

// Load opens every *.prov of the folder in sorted order. Each error names one
// file, what is wrong with it and what to do; the others are loaded all the
// same. A folder that holds none gives an empty map. What they write to standard error
// goes to log, or to the default one.
func Load(dir string, log *slog.Logger) (map[string]*Provider, []error) {
	found := map[string]*Provider{}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return found, []error{err}
	}
	if err := notWritableByAll(dir); err != nil {
		return found, []error{err}
	}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return found, []error{err}
	}
	var problems []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), Suffix) {
			continue
		}
		p, err := Open(filepath.Join(dir, e.Name()), log)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if other := found[p.Name]; other != nil {
			problems = append(problems, fmt.Errorf("%s: its name %q is taken by %s; give one of them another name in its metadata", p.Path, p.Name, other.Path))
			continue
		}
		found[p.Name] = p
	}
	return found, problems
}

// Open readies one provider: it checks the file's permissions and reads its
// metadata from NAME.yaml beside it or else by running describe. The error
// names the file, what is wrong and what to do.
func Open(path string, log *slog.Logger) (*Provider, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := runnable(path); err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(filepath.Base(path), Suffix)
	p := &Provider{Name: stem, Path: path, Dir: filepath.Dir(path), Log: log, describe: DescribeTimeout}
	companion := filepath.Join(p.Dir, stem+".yaml")
	text, err := readCompanion(companion)
	if err != nil {
		return nil, err
	}
	m, err := parseMetadata(text)
	from := companion
	if errors.Is(err, errNoMetadata) {
		from = path + ": describe"
		if m, err = p.runDescribe(); errors.Is(err, errNoMetadata) {
			err = errors.New("wrote no mapping with a key provider; print the metadata as YAML")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if err := p.apply(m); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	for _, key := range m.unknown {
		p.logger().Warn("unknown key in the metadata of a provider is ignored", "provider", p.Name, "key", clean(key, 100))
	}
	return p, nil
}

func (p *Provider) logger() *slog.Logger {
	if p.Log != nil {
		return p.Log
	}
	return slog.Default()
}

// Timeout is how long a get or set may take.
func (p *Provider) Timeout(action string) time.Duration {
	if action == "get" {
		return p.get
	}
	return p.set
}

func (p *Provider) offers(action string) *Error {
	if slices.Contains(p.actions, action) {
		return nil
	}
	return &Error{Kind: Failed, Msg: fmt.Sprintf("provider %s does not offer %s", p.Name, action), Err: errors.ErrUnsupported}
}

// runnable accepts a regular file that can be executed and that not everybody
// can change.
func runnable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	switch {
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file; a provider is one executable file", path)
	case st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: is not executable; chmod +x it, or rename it if it is no provider", path)
	}
	return notWritableByAll(path)
}

func notWritableByAll(path string) error {
	st, err := os.Stat(path)
	if err == nil && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("%s: anybody on this host can change it; chmod o-w it", path)
	}
	return err
}
