package step

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ArchiveProperties are what an artifact, or one use of it, states about an archive.
type ArchiveProperties struct {
	Users, Groups []Account
	// Path is the folder of the content, absolute; empty if there is none.
	Path string
	// Folders are Path and folders above it.
	Folders []Folder
}

// Deploy returns the target folder of an archive, and what it needs there. The artifact states
// the properties, and use replaces parts of them: the accounts with the same numbers, and the
// path. The path of use must be equal to installPath if both are there; the path of the artifact
// counts if neither is. Folders belong to the path beside them: they count if the target is that
// path or inside of it.
func Deploy(installPath string, artifact, use *ArchiveProperties) (target string, a *Archive, err error) {
	switch {
	case installPath != "" && use.Path != "" && path.Clean(installPath) != path.Clean(use.Path):
		return "", nil, fmt.Errorf("the install_path %.80q differs from the path %.80q of the ContentDeploymentLocation", installPath, use.Path)
	case use.Path != "":
		target = path.Clean(use.Path)
	case installPath != "":
		target = installPath
	case artifact.Path != "":
		target = path.Clean(artifact.Path)
	default:
		return "", nil, errors.New("there is neither an install_path nor the path of a location")
	}
	a = &Archive{Users: mergedAccounts(artifact.Users, use.Users), Groups: mergedAccounts(artifact.Groups, use.Groups)}
	var folders []Folder
	if artifact.Path != "" && IsInside(target, artifact.Path) {
		folders = artifact.Folders
	}
	a.Folders = merged(folders, use.Folders, func(f Folder) string { return f.Path })
	slices.SortFunc(a.Folders, func(a, b Folder) int { return strings.Compare(a.Path, b.Path) })
	return target, a, nil
}

// IsInside reports whether the absolute path p is the folder or inside of it.
func IsInside(p, folder string) bool {
	p, folder = path.Clean(p), path.Clean(folder)
	return p == folder || strings.HasPrefix(p, strings.TrimSuffix(folder, "/")+"/")
}

func mergedAccounts(list, by []Account) []Account {
	return merged(list, by, func(a Account) uint32 { return a.ID })
}

// merged returns the list with the elements of by, which replace those with the same key.
func merged[T any, K comparable](list, by []T, key func(T) K) (all []T) {
	at := make(map[K]int, len(list))
	for _, x := range slices.Concat(list, by) {
		if i, again := at[key(x)]; again {
			all[i] = x
			continue
		}
		at[key(x)] = len(all)
		all = append(all, x)
	}
	return all
}
