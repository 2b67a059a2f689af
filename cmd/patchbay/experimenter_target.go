package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/fileowner"
	"patchbay/am/site"
	"patchbay/inventory/suggest"
)

type target struct {
	aggregate
	// version is 2 or 3.
	version int
	// paths are the folders and files of the user.
	paths []string
	// config belongs to the aggregate's site; nil if the URL came from elsewhere.
	config *site.Config
	// own is the user's own site; nil if the command line names another aggregate.
	own *ownSite
}

// firstUser is the user of a new own site.
const firstUser = "alice"

// targetFlags select the aggregate and the user.
type targetFlags struct {
	site    *siteFlag
	URL, CA string
	Users   []string
	API     int // 0: the version in the URL
	// prepare, if not nil, returns the site to use instead of the own site.
	prepare func(ownSite) (ownSite, error)
	// makeUser, if not nil, returns the folder of a new user. With the name "", it chooses
	// a name. It returns "" if the site has no trial authority.
	makeUser func(name string) (string, error)
}

// target selects the aggregate by the first of these that is present: --url, --config,
// aggregate.yaml in a folder of the user, a site in the current folder, the user's own
// site. It selects the user by the first of these: --user, the current folder if a user's
// files are in it, the site's only user, its only user with experiments, and the user that was
// made with the own site.
func (f *targetFlags) target(ctx context.Context) (t target, err error) {
	users := f.Users
	if !f.isNamed() {
		if t.own, err = f.findOwn(); err != nil {
			return t, err
		}
		if t.own != nil && len(users) == 0 && isUserFolder(t.own.userFolder()) {
			users = []string{t.own.userFolder()}
		}
	}
	if t.paths, err = f.userPaths(users); err != nil {
		return t, err
	}
	t.URL, t.CA = f.URL, f.CA
	for _, dir := range t.paths {
		if t.URL != "" || f.site.isGiven() || !isFolder(dir) {
			continue
		}
		a, err := readAggregate(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		t.URL, t.CA = a.URL, cmp.Or(f.CA, a.CA)
	}
	if t.URL == "" {
		if t.config, err = f.readSite(t.paths); err != nil {
			return t, err
		}
		t.URL = publicURL(ctx, t.config)
	}
	given := t.URL
	if t.URL, t.version, err = versionedURL(given, f.API); err == nil && f.URL != "" {
		f.tryAsGiven(ctx, &t, given)
	}
	return t, err
}

// tryAsGiven replaces the usual URL by a given one without a path, if the aggregate answers there and
// does not name the usual path for the version.
func (f *targetFlags) tryAsGiven(ctx context.Context, t *target, given string) {
	u, err := url.Parse(given)
	if err != nil || u.Path != "" && u.Path != "/" {
		return
	}
	u.Path = "/"
	config := client.Config{URL: u.String(), ServerCAFile: t.CA, Timeout: 10 * time.Second}
	if me, err := readCaller(t.paths, ""); err == nil {
		config.CertFile, config.KeyFile = me.certFile, me.keyFile
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
	t.URL, t.version = u.String(), v.API
}

// isNamed reports whether the command line or the current folder selects an aggregate.
func (f *targetFlags) isNamed() bool {
	return f.URL != "" || f.site.isGiven() || f.site.folder() != "" ||
		len(f.Users) == 0 && isUserFolder(".") || slices.ContainsFunc(f.Users, isFolder)
}

// findOwn makes f.site refer to the own site if that site exists. It returns nil if prepare
// is nil and the user has no home folder.
func (f *targetFlags) findOwn() (*ownSite, error) {
	own, err := findOwnSite()
	if f.prepare == nil && err != nil {
		return nil, nil
	}
	if err == nil && f.prepare != nil {
		own, err = f.prepare(own)
	}
	if err != nil {
		return nil, err
	}
	if own.exists() {
		f.site.file = own.file()
	}
	return &own, nil
}

// readSite reads the first that applies: the site of --config, the site in the current
// folder, the own site, or the site that contains the user's folder.
func (f *targetFlags) readSite(paths []string) (*site.Config, error) {
	file := f.site.path()
	if !f.site.isGiven() && f.site.folder() == "" {
		at := ""
		if len(paths) > 0 {
			at = siteOf(filepath.Join(paths[0], "x"))
		}
		if at == "" {
			return nil, errors.New("no aggregate given: use --url https://HOST:PORT/am/3.0, or --config with a site of this host")
		}
		file = at
	}
	return f.site.readFile(file)
}

// versionedURL uses the parameter api unless it is 0, else the version in the URL, else 3.
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

// userPaths returns the folders and files of --user. A NAME is a user or tool of the site.
// Without a value, userPaths returns the current folder if a user's files are in it, else
// the folder of the site's only user. With --url and no value, it returns nothing, since
// the URL may belong to another aggregate.
func (f *targetFlags) userPaths(users []string) ([]string, error) {
	if len(users) == 0 {
		path, err := f.onlyUser()
		if path == "" || err != nil {
			return nil, err
		}
		return []string{path}, nil
	}
	paths := slices.Clone(users)
	for i, name := range users {
		if exists(name) {
			continue
		}
		if name != filepath.Base(name) {
			remedy := ""
			if have := userNamesIn(filepath.Dir(name)); len(have) > 0 {
				remedy = fmt.Sprintf("; %screate a user with: %s", suggestNames(filepath.Base(name), have), commandAbout(name, "user", "NAME"))
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

// onlyUser fails if several users could be meant. It returns "" if there is no user and none can
// be created.
func (f *targetFlags) onlyUser() (string, error) {
	dir, names := f.site.folder(), f.site.userNames()
	switch {
	case f.URL != "" && !f.site.flags.Changed("config"): // do not send a user's certificate to another aggregate
		return "", nil
	case isUserFolder(".") && exists(aggregateName) && !f.site.isGiven():
		return ".", nil
	case len(names) > 1:
		if name := f.likelyUser(dir, names); name != "" {
			return folderOfUser(dir, name), nil
		}
		return "", fmt.Errorf("several users could be meant; add --user NAME: %s", joinSome(names))
	case len(names) == 1:
		return folderOfUser(dir, names[0]), nil
	case f.makeUser == nil || dir == "":
		return "", nil
	}
	return f.makeUser("")
}

// likelyUser returns the only user with experiments, or else the user that "patchbay up" made
// together with the own site; "" for none.
func (f *targetFlags) likelyUser(dir string, names []string) string {
	busy := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(namesOf(filepath.Join(folderOfUser(dir, name), "slices"), "*.request.xml", ".request.xml")) == 0
	})
	switch own, err := findOwnSite(); {
	case len(busy) == 1:
		return busy[0]
	case len(busy) == 0 && err == nil && own.exists() && own.file() == f.site.path() && slices.Contains(names, firstUser):
		return firstUser
	}
	return ""
}

func (f *targetFlags) namedUser(name string) (string, error) {
	dir := f.site.folder()
	if dir == "" {
		return "", fmt.Errorf("there is no file or folder %q, and no site that could have a user of that name; add --config SITE, or give the user's folder", name)
	}
	for _, folder := range []string{folderOfUser(dir, name), filepath.Join(dir, toolsDir, strings.ToLower(name))} {
		if exists(folder) {
			return folder, nil
		}
	}
	if f.makeUser != nil && suggest.Word(name, f.site.userNames()) == "" {
		if made, err := f.makeUser(name); made != "" || err != nil {
			return made, err
		}
	}
	return "", fmt.Errorf("there is no user %q in %s; %screate one with: %s", name, filepath.Join(dir, site.UsersDir), suggestNames(name, f.site.userNames()), f.site.hint("user", name))
}

// folderOfUser returns the folder of a user of the site in dir. In a site of root, it
// returns the target of a link to the folder of the user that called sudo. It does not
// follow links in a site of another user: the kernel follows them later, with the rights of
// the site's owner.
func folderOfUser(dir, name string) string {
	folder := filepath.Join(dir, site.UsersDir, strings.ToLower(name))
	if _, _, another, err := fileowner.Other(filepath.Dir(folder)); another || err != nil {
		return folder
	}
	if to, err := os.Readlink(folder); err == nil && filepath.IsAbs(to) {
		return to
	}
	return folder
}

// rootsSiteOf returns the folder of the user's own site if that site belongs to root and
// path is in the folder with the user's keys, else "".
func rootsSiteOf(path string) string {
	own, err := findOwnSite()
	if err != nil || own.userFolder() == "" {
		return ""
	}
	path, err = filepath.Abs(path)
	if rest, err2 := filepath.Rel(own.userFolder(), path); err != nil || err2 != nil || !filepath.IsLocal(rest) {
		return ""
	}
	if own.home != "" {
		return own.dir
	}
	dir, err := rootsSite(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	return dir
}

// publicURL returns a URL without a path.
func publicURL(ctx context.Context, c *site.Config) string {
	return cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), site.PublicURLOf(ctx, c.Listen))
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return name != "" && err == nil && info.IsDir()
}

// isUserFolder reports whether "patchbay user" has written the folder.
func isUserFolder(dir string) bool {
	return dir != "" && len(globbed(dir, "*-cert.pem")) > 0
}
