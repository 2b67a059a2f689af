package userfolder

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
)

// SuggestNames returns "did you mean x? Or ", or "there are x, y; or ", or "" if no names
// exist.
func SuggestNames(want string, have []string) string {
	const most = 10
	if near := display.Suggest(want, have); near != "" {
		return fmt.Sprintf("did you mean %s? Or ", near)
	}
	switch more := len(have) - most; {
	case len(have) == 0:
		return ""
	case len(have) == 1:
		return fmt.Sprintf("there is only %s; or ", have[0])
	case more > 0:
		return fmt.Sprintf("there are %s and %d more; or ", strings.Join(have[:most], ", "), more)
	}
	return fmt.Sprintf("there are %s; or ", strings.Join(have, ", "))
}

// Users returns the users, or tools, with a folder in dir.
func Users(dir string) []string {
	return Names(dir, "*/*-cert.pem", "-cert.pem")
}

// Slices returns the slices with a credential in a user's or tool's folder.
func Slices(dir string) []string {
	return Names(filepath.Join(dir, SlicesDir), "*-cred.xml", "-cred.xml")
}

// Names returns the sorted names of the files of a folder that match a pattern, without folder and
// suffix.
func Names(dir, pattern, suffix string) (names []string) {
	for _, f := range Glob(dir, pattern) {
		names = append(names, strings.TrimSuffix(filepath.Base(f), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FileExists reports whether the file, or a folder of that name, exists.
func FileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Path returns the folder of a user of the site in dir. In a site of root, it
// returns the target of a link to the folder of the user that called sudo. It does not
// follow links in a site of another user: the kernel follows them later, with the rights of
// the site's owner.
func Path(dir, name string) string {
	folder := filepath.Join(dir, site.UsersDir, strings.ToLower(name))
	if _, _, another, err := file.OtherOwner(filepath.Dir(folder)); another || err != nil {
		return folder
	}
	if to, err := os.Readlink(folder); err == nil && filepath.IsAbs(to) {
		return to
	}
	return folder
}

// PublicURL returns a URL without a path.
func PublicURL(ctx context.Context, c *site.Config) string {
	return cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), site.PublicURLOf(ctx, c.Listen))
}

// IsFolder reports whether the folder exists.
func IsFolder(name string) bool {
	info, err := os.Stat(name)
	return name != "" && err == nil && info.IsDir()
}

// IsUserFolder reports whether "patchbay user" has written the folder.
func IsUserFolder(dir string) bool {
	return dir != "" && len(Glob(dir, "*-cert.pem")) > 0
}

// Glob returns the files of a folder that match a pattern. Unlike filepath.Glob, it does not
// interpret the name of the folder.
func Glob(dir, pattern string) []string {
	files, _ := fs.Glob(os.DirFS(dir), pattern) // fails only for wrong patterns
	for i := range files {
		files[i] = filepath.Join(dir, files[i])
	}
	return files
}

// JoinSome lists at most 20 names.
func JoinSome(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// SiteOf returns the configuration file of the site that a path in a user's folder belongs
// to; "" without a site.
func SiteOf(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for range 4 { // site/users/NAME/slices/FILE
		path = filepath.Dir(path)
		file := filepath.Join(path, site.ConfigName)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// IsDelegated reports whether a credential was delegated by a user, not issued by an authority.
func IsDelegated(credential []byte) bool { return bytes.Contains(credential, []byte("<parent>")) }

// SlicesDir is the folder of slice credentials in a user's folder.
const SlicesDir = "slices"
