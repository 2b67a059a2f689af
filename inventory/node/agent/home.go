package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const skeleton = "/etc/skel"

const (
	maxSkeletonFiles = 1000
	skeletonLimit    = 16 << 20 // bytes
)

// setHome creates the home of an account if it is missing, and writes its keys there.
func setHome(a Account, keys keyPair) error {
	user, err := lookUpAccount(a.Login)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(user.home) {
		return fmt.Errorf("%q is not an absolute path", printable(user.home))
	}
	if _, err := os.Lstat(user.home); errors.Is(err, fs.ErrNotExist) {
		if err := makeHome(user); err != nil {
			return err
		}
	}
	return runAs(user, func() error { return setKeys(user.home, a.Keys, keys) })
}

// makeHome creates the home of an account with the files of the folder skeleton. It builds the home where
// only root can reach it, and then renames it. So no incomplete home is ever used.
func makeHome(user account) error {
	above := filepath.Dir(user.home)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return err
	}
	fresh := filepath.Join(above, ".patchbay-new-home")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := copySkeleton(fresh, user); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Lchown(fresh, int(user.uid), int(user.gid)); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	return os.Rename(fresh, user.home)
}

// copySkeleton copies the files of the folder skeleton to dir, and gives them to the account. Only root can
// reach dir, so no user can put a link in the way.
func copySkeleton(dir string, user account) error {
	if _, err := os.Stat(skeleton); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	count, size := 0, int64(0)
	return filepath.WalkDir(skeleton, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == skeleton {
			return err
		}
		below, err := filepath.Rel(skeleton, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, below)
		stat, err := d.Info()
		if err != nil {
			return err
		}
		if count++; count > maxSkeletonFiles {
			return fmt.Errorf("%s has more than %d files", skeleton, maxSkeletonFiles)
		}
		switch {
		case d.IsDir():
			err = os.Mkdir(to, stat.Mode().Perm())
		case d.Type()&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(path); err == nil {
				err = os.Symlink(target, to)
			}
		case d.Type().IsRegular():
			if size += stat.Size(); size > skeletonLimit {
				return fmt.Errorf("%s is larger than %d bytes", skeleton, skeletonLimit)
			}
			err = copyFile(path, to, stat)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return os.Lchown(to, int(user.uid), int(user.gid))
	})
}

func copyFile(from, to string, stat fs.FileInfo) error {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, stat.Mode().Perm())
	if err != nil {
		return err
	}
	room := make([]byte, min(stat.Size()+1, 32<<10))
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, io.LimitReader(in, skeletonLimit), room)
	return errors.Join(err, out.Close())
}

// setKeys writes the authorized keys and the key pair of the experiment into a home. It must run with the
// rights of the account.
func setKeys(home string, authorized []string, keys keyPair) error {
	dir := filepath.Join(home, ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	path := filepath.Join(dir, "authorized_keys")
	old, err := readIfExists(path)
	if err != nil {
		return err
	}
	if err := updateFile(path, old, setBlock(old, authorized), 0o600); err != nil {
		return err
	}
	if len(keys.private) == 0 {
		return nil
	}
	return keys.write(filepath.Join(dir, "id_rsa"))
}

// keyPair is the experiment's key.
type keyPair struct {
	private, public []byte
	given           []string // keyID of the keys that homes have received, this one included
}

// givenFile holds the keyID of each key that homes have received, one per line.
const (
	givenFile = "/var/lib/patchbay/keys"
	maxGiven  = 1000
)

func keyID(private []byte) string {
	sum := sha256.Sum256(private)
	return hex.EncodeToString(sum[:])
}

// recordKey saves that homes receive the key, so that a later key can replace it. It returns the
// keyID of all keys that homes have received.
func recordKey(private []byte) (given []string, err error) {
	old, err := readIfExists(givenFile)
	if err != nil || len(private) == 0 {
		return nil, err
	}
	given = strings.Fields(string(old))
	if id := keyID(private); !slices.Contains(given, id) {
		given = append(given[max(0, len(given)-maxGiven+1):], id)
	}
	return given, updateFile(givenFile, old, []byte(strings.Join(given, "\n")+"\n"), 0o600)
}

// write writes the key pair to path and path.pub. It leaves other keys than those of the experiment
// unchanged. An interrupted write is repeated, since the private key is written last.
func (k keyPair) write(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		present, _ := readFile(path, fileLimit) // what cannot be read is no key of the experiment
		id := keyID(present)
		if err != nil || id == keyID(k.private) || !slices.Contains(k.given, id) {
			return err
		}
		if err := os.Remove(path + ".pub"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	old, err := readIfExists(path + ".pub")
	if err != nil || old != nil && !bytes.Equal(old, k.public) {
		return err
	}
	if err := updateFile(path+".pub", old, k.public, 0o644); err != nil {
		return err
	}
	return writeFile(path, k.private, 0o600, os.Geteuid(), os.Getegid())
}
