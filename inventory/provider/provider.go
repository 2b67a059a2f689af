package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/executable"
)

// Time limits of one call. Metadata may set other limits for get and set, up to maxTimeout.
const (
	DescribeTimeout = 10 * time.Second
	GetTimeout      = 60 * time.Second
	SetTimeout      = 10 * time.Second
	maxTimeout      = 10 * time.Minute
)

// MaxNames is the maximal number of resources in one run; Get and Set split longer lists.
const MaxNames = 1000

// Suffix is the suffix of a provider's file name.
const Suffix = ".prov"

// Provider is one executable that passed the checks of Open. Its methods may be called
// concurrently.
type Provider struct {
	// Name is the provider's name in the inventory.
	Name string
	// Type is the type of the resources that the provider manages.
	Type string
	Desc string
	// Path is the executable, Dir its folder and working directory; both are absolute.
	Path, Dir string
	// Parallel is the number of sets that may run at the same time, at least 1. One dry
	// run may run in addition. Set enforces both limits.
	Parallel int
	// Probe means that the provider requires a dry run (Set with noop) before each
	// reservation.
	Probe bool
	// Cleaning is the usual time until a component is clean after its node was removed. It
	// is 0 if the metadata do not declare it.
	Cleaning   time.Duration
	Attributes map[string]Attribute
	// Log receives the provider's standard error; nil means slog.Default. It must not be
	// changed after the first call.
	Log *slog.Logger
	// Trace, if not nil, receives the standard output of each successful get and set
	// before it is parsed. It must not be changed after the first call, and may be called
	// concurrently.
	Trace func(action string, out []byte)
	// Ended, if not nil, is called after each get and set that was not cancelled. The
	// parameter took is the duration of the call, and err is its error as a whole. Ended must
	// not be changed after the first call, and may be called concurrently.
	Ended func(action string, took time.Duration, err error)
	// Execute, if not nil, runs the executable in place of executable.Command.Run. Tests set it
	// to answer calls without a process. It must not be changed after the first call, and may be
	// called concurrently.
	Execute func(ctx context.Context, c *executable.Command) (heldOpen bool, err error)

	get, set, describe time.Duration // time limits
	actions            []string
	places             chan struct{} // one place for each set that may run
	dryRunPlace        chan struct{} // the place of a dry run
}

// Attribute is an attribute that the provider declared.
type Attribute struct {
	Desc string
	Type Type
	// Kind is r for read-only, w for write-only, or rw.
	Kind string
}

// Has reports whether the provider declares the attribute. Undeclared attributes are
// never sent, so check before a reservation relies on one.
func (p *Provider) Has(attribute string) bool {
	_, ok := p.Attributes[attribute]
	return ok
}

// Load opens all *.prov files of the folder in sorted order. Each error names one file, the
// problem and the remedy. The map has the providers without an error. The parameter log
// receives the providers' standard error; nil means slog.Default.
func Load(dir string, log *slog.Logger) (map[string]*Provider, []error) {
	found := map[string]*Provider{}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return found, []error{err}
	}
	if err := checkNotWorldWritable(dir); err != nil {
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

// Open checks the permissions of one provider and reads its metadata. The metadata comes from
// the file NAME.yaml beside the provider or, without that file, from the action describe. The
// error names the file, the problem and the remedy.
func Open(path string, log *slog.Logger) (*Provider, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := checkExecutable(path); err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(filepath.Base(path), Suffix)
	p := &Provider{Name: stem, Path: path, Dir: filepath.Dir(path), Log: log, describe: DescribeTimeout}
	from := filepath.Join(p.Dir, stem+".yaml") // where the metadata is, for errors
	text, err := readMetadataFile(from)
	if err != nil {
		return nil, err
	}
	m, err := parseMetadata(text)
	if errors.Is(err, errNoMetadata) {
		from = path + ": describe"
		if m, err = p.runDescribe(); errors.Is(err, errNoMetadata) {
			err = errors.New("wrote no YAML mapping with the key provider; write the metadata in that form")
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

// Timeout returns the time limit of a get or set.
func (p *Provider) Timeout(action string) time.Duration {
	if action == "get" {
		return p.get
	}
	return p.set
}

func (p *Provider) checkOffered(action string) *Error {
	if slices.Contains(p.actions, action) {
		return nil
	}
	return &Error{Kind: Failed, Msg: fmt.Sprintf("provider %s does not offer %s", p.Name, action), Err: errors.ErrUnsupported}
}

// checkExecutable returns an error unless path is an executable regular file that is not
// writable by all users of the host.
func checkExecutable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	switch {
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file; a provider is one executable file", path)
	case st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: is not executable; run chmod +x on it, or rename it if it is not a provider", path)
	}
	return checkNotWorldWritable(path)
}

// checkNotWorldWritable returns an error if every user of the host can write to path. A
// folder with the sticky bit is allowed.
func checkNotWorldWritable(path string) error {
	st, err := os.Stat(path)
	if err == nil && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("%s: every user of this host can change it; run chmod o-w on it", path)
	}
	return err
}
