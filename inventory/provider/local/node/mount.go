package node

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Mounts are created as descriptors and attached by descriptor, so that no symbolic link in an
// image or on a node's disk redirects them.

// newMount creates a mount that is not yet attached. An option with an empty value is a
// flag.
func newMount(kind string, attributes int, options ...[2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("cannot make a %s: %w", kind, err)
	}
	defer unix.Close(fs)
	options = append(options, [2]string{"source", kind})
	for _, o := range options {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return -1, fmt.Errorf("%s does not accept %s=%s: %w", kind, o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("cannot make a %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("cannot mount a %s: %w", kind, err)
	}
	return fd, nil
}

func cloneMount(path string, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return -1, fmt.Errorf("cannot mount %s again: %w", path, err)
	}
	return fd, nil
}

// cloneMountWithin does not follow symbolic links. It returns errors of the system call
// unchanged.
func cloneMountWithin(root int, path string) (int, error) {
	at, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
}

// openWithin opens a path below the folder root, without following symbolic links. If folder is true, path
// must be a folder, and openWithin creates a missing one.
func openWithin(root int, path string, folder bool) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	if folder {
		how.Flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat2(root, path, &how)
	if err == unix.ENOENT && folder {
		if err = unix.Mkdirat(root, path, 0o755); err == nil {
			fd, err = unix.Openat2(root, path, &how)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open in the node", Path: "/" + path, Err: err}
	}
	return fd, nil
}

// moveMount closes the descriptor mount, but not target.
func moveMount(mount, target int) error {
	defer unix.Close(mount)
	return unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// moveMountWithin closes the descriptor mount. folder has the same meaning as in
// openWithin.
func moveMountWithin(mount, root int, path string, folder bool) error {
	at, err := openWithin(root, path, folder)
	if err != nil {
		unix.Close(mount)
		return err
	}
	defer unix.Close(at)
	if err := moveMount(mount, at); err != nil {
		return fmt.Errorf("cannot mount at /%s of the node: %w", path, err)
	}
	return nil
}
