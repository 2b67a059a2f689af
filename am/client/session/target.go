package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/client/ownsite"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
)

// Target is an aggregate and a user of it.
type Target struct {
	userfolder.Aggregate
	// Version is 2 or 3.
	Version int
	// Paths are the folders and files of the user.
	Paths []string
	// Config belongs to the aggregate's site; nil if the URL came from elsewhere.
	Config *site.Config
	// own is the user's own site; nil if the command line names another aggregate.
	own *ownsite.Site
}

// firstUser is the user of a new own site.
const firstUser = "alice"

// Selection has the options of a command line that select an aggregate and users.
type Selection struct {
	Site *ChosenSite
	// URL is of the aggregate, and CA a file with accepted certificates of its server; "" if not given.
	URL, CA string
	Users   []string // names, folders and files
	API     int      // 0: the version in the URL
	// prepare, if not nil, returns the site to use instead of the own site.
	prepare func(ownsite.Site) (ownsite.Site, error)
	// makeUser, if not nil, returns the folder of a new user. With the name "", it chooses
	// a name. It returns "" if the site has no trial authority.
	makeUser func(name string) (string, error)
}

// Target selects the aggregate by the first of these that is present: --url, --config,
// aggregate.yaml in a folder of the user, a site in the current folder, the user's own
// site. It selects the user by the first of these: --user, the current folder if a user's
// files are in it, the site's only user, its only user with experiments, and the user that was
// made with the own site. If prepare and makeUser are set, as by Open, Target may create a site
// and a user.
func (f *Selection) Target(ctx context.Context) (t Target, err error) {
	users := f.Users
	if !f.isNamed() {
		if t.own, err = f.findOwn(); err != nil {
			return t, err
		}
		if t.own != nil && len(users) == 0 && userfolder.IsUserFolder(t.own.UserFolder()) {
			users = []string{t.own.UserFolder()}
		}
	}
	if t.Paths, err = f.UserPaths(users); err != nil {
		return t, err
	}
	t.URL, t.CA = f.URL, f.CA
	for _, dir := range t.Paths {
		if t.URL != "" || f.Site.IsGiven() || !userfolder.IsFolder(dir) {
			continue
		}
		a, err := userfolder.ReadAggregate(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		t.URL, t.CA = a.URL, cmp.Or(f.CA, a.CA)
	}
	if t.URL == "" {
		if t.Config, err = f.readSite(t.Paths); err != nil {
			return t, err
		}
		t.URL = userfolder.PublicURL(ctx, t.Config)
	}
	given := t.URL
	if t.URL, t.Version, err = versionedURL(given, f.API); err == nil && f.URL != "" {
		f.tryAsGiven(ctx, &t, given)
	}
	return t, err
}

// tryAsGiven replaces the usual URL by a given one without a path, if the aggregate answers there and
// does not name the usual path for the version.
func (f *Selection) tryAsGiven(ctx context.Context, t *Target, given string) {
	u, err := url.Parse(given)
	if err != nil || u.Path != "" && u.Path != "/" {
		return
	}
	u.Path = "/"
	config := client.Config{URL: u.String(), ServerCAFile: t.CA, Timeout: 10 * time.Second}
	if me, err := ReadCaller(t.Paths, ""); err == nil {
		config.CertFile, config.KeyFile = me.CertFile, me.KeyFile
	}
	c, err := client.New(config)
	if err != nil {
		return
	}
	defer c.Close()
	v, _, err := c.GetVersion(ctx)
	if err != nil || f.API != 0 && v.API != f.API {
		return
	}
	if usual, err := url.Parse(t.URL); err == nil && strings.HasSuffix(v.Addresses[strconv.Itoa(v.API)], usual.Path) {
		return
	}
	t.URL, t.Version = u.String(), v.API
}

// isNamed reports whether the command line or the current folder selects an aggregate.
func (f *Selection) isNamed() bool {
	return f.URL != "" || f.Site.IsGiven() || f.Site.folder() != "" ||
		len(f.Users) == 0 && userfolder.IsUserFolder(".") || slices.ContainsFunc(f.Users, userfolder.IsFolder)
}

// findOwn returns the own site, prepared if prepare is not nil. If the own site exists, f.Site refers
// to it from now on. findOwn returns nil if prepare is nil and the user has no home folder.
func (f *Selection) findOwn() (*ownsite.Site, error) {
	own, err := ownsite.Find()
	if f.prepare == nil && err != nil {
		return nil, nil
	}
	if err == nil && f.prepare != nil {
		own, err = f.prepare(own)
	}
	if err != nil {
		return nil, err
	}
	if own.Exists() {
		f.Site.File = own.File()
	}
	return &own, nil
}

// readSite reads the first that applies: the site of --config, the site in the current
// folder, the own site, or the site that contains the user's folder.
func (f *Selection) readSite(paths []string) (*site.Config, error) {
	file := f.Site.Path()
	if !f.Site.IsGiven() && f.Site.folder() == "" {
		at := ""
		if len(paths) > 0 {
			at = userfolder.SiteOf(filepath.Join(paths[0], "x"))
		}
		if at == "" {
			return nil, errors.New("no aggregate given: use --url https://HOST:PORT/am/3.0, or --config with a site of this host")
		}
		file = at
	}
	return f.Site.ReadFile(file)
}

// versionedURL returns the URL of one version of the API, and the version: the parameter api unless it
// is 0, else the version in the URL, else 3.
func versionedURL(text string, api int) (string, int, error) {
	u, err := url.Parse(text)
	if err != nil && !strings.Contains(text, "://") || err == nil && u.Host == "" {
		return "", 0, fmt.Errorf("--url: %q does not begin with https://; write https://%s", text, strings.TrimLeft(text, "/"))
	}
	if err != nil {
		return "", 0, fmt.Errorf("--url: %w", err)
	}
	if u.Port() == "0" {
		return "", 0, errors.New("the site listens on any free port; give --url with the URL that serve has printed")
	}
	place, version := path.Split(strings.TrimSuffix(u.Path, "/"))
	inURL := map[string]int{"2.0": 2, "3.0": 3}[version]
	if api == 0 {
		api = cmp.Or(inURL, 3)
	}
	switch {
	case u.Path == "" || u.Path == "/":
		u.Path = fmt.Sprintf("/am/%d.0", api)
	case inURL != 0 && inURL != api: // the paths of the versions differ only in their last part
		u.Path = fmt.Sprintf("%s%d.0", place, api)
	}
	return u.String(), api, nil
}

// UserPaths returns the folders and files of --user. A NAME is a user or tool of the site.
// Without a value, UserPaths returns the current folder if a user's files are in it, else
// the folder of the site's only user. With --url and no value, it returns nothing, since
// the URL may belong to another aggregate.
func (f *Selection) UserPaths(users []string) ([]string, error) {
	if len(users) == 0 {
		path, err := f.onlyUser()
		if path == "" || err != nil {
			return nil, err
		}
		return []string{path}, nil
	}
	paths := slices.Clone(users)
	for i, name := range users {
		if userfolder.FileExists(name) {
			continue
		}
		if name != filepath.Base(name) {
			remedy := ""
			if have := userfolder.Users(filepath.Dir(name)); len(have) > 0 {
				remedy = fmt.Sprintf("; %screate a user with: %s", userfolder.SuggestNames(filepath.Base(name), have), commandAbout(name, "user", "NAME"))
			}
			return nil, fmt.Errorf("--user: there is no file or folder %s%s", name, remedy)
		}
		var err error
		if paths[i], err = f.namedUser(name); err != nil {
			return nil, fmt.Errorf("--user: %w", err)
		}
	}
	return paths, nil
}

// onlyUser returns the folder of the user if the command line names none. It fails if several users
// could be meant. It returns "" if there is no user and none can be created.
func (f *Selection) onlyUser() (string, error) {
	dir, names := f.Site.folder(), f.Site.UserNames()
	switch {
	case f.URL != "" && !f.Site.IsFlag: // do not send a user's certificate to another aggregate
		return "", nil
	case userfolder.IsUserFolder(".") && userfolder.FileExists(userfolder.AggregateName) && !f.Site.IsGiven():
		return ".", nil
	case len(names) > 1:
		if name := f.likelyUser(dir, names); name != "" {
			return userfolder.Path(dir, name), nil
		}
		return "", fmt.Errorf("several users could be meant; add --user NAME: %s", userfolder.JoinSome(names))
	case len(names) == 1:
		return userfolder.Path(dir, names[0]), nil
	case f.makeUser == nil || dir == "":
		return "", nil
	}
	return f.makeUser("")
}

// likelyUser returns the only user with experiments, or else the user that "patchbay up" made
// together with the own site; "" for none.
func (f *Selection) likelyUser(dir string, names []string) string {
	busy := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(userfolder.Names(filepath.Join(userfolder.Path(dir, name), "slices"), "*.request.xml", ".request.xml")) == 0
	})
	switch own, err := ownsite.Find(); {
	case len(busy) == 1:
		return busy[0]
	case len(busy) == 0 && err == nil && own.Exists() && own.File() == f.Site.Path() && slices.Contains(names, firstUser):
		return firstUser
	}
	return ""
}

func (f *Selection) namedUser(name string) (string, error) {
	dir := f.Site.folder()
	if dir == "" {
		return "", fmt.Errorf("there is no file or folder %q, and no site that could have a user of that name; add --config SITE, or give the user's folder", name)
	}
	for _, folder := range []string{userfolder.Path(dir, name), filepath.Join(dir, userfolder.ToolsDir, strings.ToLower(name))} {
		if userfolder.FileExists(folder) {
			return folder, nil
		}
	}
	if f.makeUser != nil && display.Suggest(name, f.Site.UserNames()) == "" {
		if made, err := f.makeUser(name); made != "" || err != nil {
			return made, err
		}
	}
	return "", fmt.Errorf("there is no user %q in %s; %screate one with: %s", name, filepath.Join(dir, site.UsersDir), userfolder.SuggestNames(name, f.Site.UserNames()), f.Site.Hint("user", name))
}
