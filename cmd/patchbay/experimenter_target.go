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

	"patchbay/am/fileowner"
	"patchbay/am/site"
)

// target is the aggregate and the user that a command line is about.
type target struct {
	aggregate
	// version is that of the API in the aggregate's URL, 2 or 3.
	version int
	// paths are the folders and files of the user; none where there is no user.
	paths []string
	// config is the site of this host that has the aggregate, where it had to be read.
	config *site.Config
	// own is the user's own site, if nothing else is named.
	own *ownSite
}

// targetFlags are what a command line says of its aggregate and its user.
type targetFlags struct {
	site    *siteFlag
	URL, CA string
	Users   []string
	API     int // 0: as the URL says
	// prepare, if not nil, is called with the own site, and gives the one to use.
	prepare func(ownSite) (ownSite, error)
	// makeUser, if not nil, makes a user of the site, "" for one of any name. It gives
	// the folder, or "" where the site makes no users.
	makeUser func(name string) (string, error)
}

// target finds the aggregate and the user. The aggregate is that of --url, of --config, of
// aggregate.yaml in a folder of the user, of the site in the current folder, or of the
// user's own site. The user is the one of --user, else the current folder if it is a
// user's, else the only one of the site.
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
		if t.URL != "" || f.site.given() || !isFolder(dir) {
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
	t.URL, t.version, err = versionedURL(t.URL, f.API)
	return t, err
}

// isNamed tells whether the command line or the current folder name an aggregate.
func (f *targetFlags) isNamed() bool {
	return f.URL != "" || f.site.given() || f.site.folder() != "" ||
		len(f.Users) == 0 && isUserFolder(".") || slices.ContainsFunc(f.Users, isFolder)
}

// findOwn is the user's own site, which is the one of names then; nil where there can be
// none and nobody prepares it.
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

// readSite reads the configuration of the site that is the aggregate: the one of --config,
// of the current folder, the own one, or the one in which the user's folder lies.
func (f *targetFlags) readSite(paths []string) (*site.Config, error) {
	file := f.site.path()
	if !f.site.given() && f.site.folder() == "" {
		at := ""
		if len(paths) > 0 {
			at = siteOf(filepath.Join(paths[0], "x"))
		}
		if at == "" {
			return nil, errors.New("no aggregate given: use --url https://HOST:PORT/am/3.0, or --config with a site of this host")
		}
		file = at
	}
	return site.ReadConfig(file)
}

// versionedURL is the URL of a version of the API: of api or, if that is 0, of what the
// URL says, else 3.
func versionedURL(text string, api int) (string, int, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", 0, fmt.Errorf("--url: %w", err)
	}
	if u.Port() == "0" {
		return "", 0, errors.New("the site listens on any free port; give --url with what serve has printed")
	}
	place, version := path.Split(strings.TrimSuffix(u.Path, "/"))
	said := map[string]int{"2.0": 2, "3.0": 3}[version]
	if api == 0 {
		api = cmp.Or(said, 3)
	}
	switch {
	case u.Path == "" || u.Path == "/":
		u.Path = fmt.Sprintf("/am/%d.0", api)
	case said != 0 && said != api: // the other version is at its neighbour
		u.Path = fmt.Sprintf("%s%d.0", place, api)
	}
	return u.String(), api, nil
}

// userPaths turns what --user names into folders and files. A NAME stands for the folder of
// that user, or tool, of the site. Without --user it is the current folder, if that is a
// user's, or the folder of the site's only user; with a URL, which may be that of another
// aggregate, it is nothing.
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
		if exists(name) || name != filepath.Base(name) {
			continue
		}
		var err error
		if paths[i], err = f.namedUser(name); err != nil {
			return nil, fmt.Errorf("--user: %w", err)
		}
	}
	return paths, nil
}

// onlyUser is the folder of the user where --user names none; "" if there is no user.
func (f *targetFlags) onlyUser() (string, error) {
	dir, names := f.site.folder(), f.site.userNames()
	switch {
	case f.URL != "" && !f.site.flags.Changed("config"): // another aggregate learns of no user unasked
		return "", nil
	case isUserFolder(".") && exists(aggregateName) && !f.site.given():
		return ".", nil
	case len(names) > 1:
		return "", fmt.Errorf("several users could be meant; add --user NAME: %s", fewOf(names))
	case len(names) == 1:
		return folderOfUser(dir, names[0]), nil
	case f.makeUser == nil || dir == "":
		return "", nil
	}
	return f.makeUser("")
}

// namedUser is the folder of a user, or tool, of the site.
func (f *targetFlags) namedUser(name string) (string, error) {
	dir := f.site.folder()
	if dir == "" {
		return "", fmt.Errorf("there is no file or folder %q, and no site that could have a user of that name; add --config with the site, or name the user's folder", name)
	}
	for _, folder := range []string{folderOfUser(dir, name), filepath.Join(dir, toolsDir, strings.ToLower(name))} {
		if exists(folder) {
			return folder, nil
		}
	}
	if f.makeUser != nil {
		if made, err := f.makeUser(name); made != "" || err != nil {
			return made, err
		}
	}
	return "", fmt.Errorf("there is no user %q in %s; %smake one with: %s", name, filepath.Join(dir, site.UsersDir), instead(name, f.site.userNames()), f.site.hint("user", name))
}

// folderOfUser is the folder of a user of the site in dir. In a site of root it may be a
// link to the folder of the user who called sudo, which is then given; in others only the
// kernel follows links, with the rights of the site's owner.
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

// rootsSiteOf is the folder of the site that root has for the user whose folder path is
// or lies in; "" for anything else.
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

// publicURL returns the URL at which clients reach a site, without a path.
func publicURL(ctx context.Context, c *site.Config) string {
	return cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), site.PublicURLOf(ctx, c.Listen))
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return name != "" && err == nil && info.IsDir()
}

// isUserFolder tells whether a folder is one that "patchbay user" writes.
func isUserFolder(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*-cert.pem"))
	return dir != "" && len(files) > 0
}
