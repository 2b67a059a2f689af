package step

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeploy(t *testing.T) {
	type accounts = []Account
	artifact := ArchiveProperties{
		Users: accounts{{"adm", 1001}, {"web", 1002}}, Groups: accounts{{"grp", 1001}}, Path: "/a/b",
		Folders: []Folder{{"/a/b", 1001, 1001, "0754"}, {"/a", 1001, 1001, "0755"}},
	}
	sorted := []Folder{artifact.Folders[1], artifact.Folders[0]}
	for _, tt := range []struct {
		rule, installPath string
		artifact, use     ArchiveProperties
		target            string
		want              Archive
		err               string
	}{
		{"T1 source", "", artifact, ArchiveProperties{}, "/a/b", Archive{artifact.Users, artifact.Groups, sorted}, ""},
		{"T2 use", "", artifact, ArchiveProperties{Path: "/c", Folders: []Folder{{"/c", 1, 2, "0700"}}}, "/c", Archive{artifact.Users, artifact.Groups, []Folder{{"/c", 1, 2, "0700"}}}, ""},
		{"T4 one id of a map", "", artifact, ArchiveProperties{Users: accounts{{"new", 1003}, {"other", 1001}}, Groups: accounts{{"g", 7}}}, "/a/b",
			Archive{accounts{{"other", 1001}, {"web", 1002}, {"new", 1003}}, accounts{{"grp", 1001}, {"g", 7}}, sorted}, ""},
		{"T6 nothing", "", ArchiveProperties{}, ArchiveProperties{}, "", Archive{}, "there is neither an install_path nor the path of a location"},
		{"T7 different", "/x", artifact, ArchiveProperties{Path: "/y"}, "", Archive{}, `the install_path "/x" differs from the path "/y"`},
		{"T7 different home", "~/y", artifact, ArchiveProperties{Path: "/y"}, "", Archive{}, "differs"},
		{"T7 equal", "/y/", artifact, ArchiveProperties{Path: "/y"}, "/y", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"T19 use without folders", "", artifact, ArchiveProperties{Path: "/c"}, "/c", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"install_path", "/x", artifact, ArchiveProperties{}, "/x", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"a home", "~", artifact, ArchiveProperties{}, "~", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"target inside of the source", "/a/b/c", artifact, ArchiveProperties{}, "/a/b/c", Archive{artifact.Users, artifact.Groups, sorted}, ""},
		{"target beside the source", "/a/bc", artifact, ArchiveProperties{}, "/a/bc", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"target above the source", "/a", artifact, ArchiveProperties{}, "/a", Archive{artifact.Users, artifact.Groups, nil}, ""},
		{"folders of both", "", artifact, ArchiveProperties{Path: "/a/b", Folders: []Folder{{"/a/b", 5, 6, "0700"}}}, "/a/b",
			Archive{artifact.Users, artifact.Groups, []Folder{sorted[0], {"/a/b", 5, 6, "0700"}}}, ""},
		{"the root", "", ArchiveProperties{Path: "/"}, ArchiveProperties{}, "/", Archive{}, ""},
	} {
		target, a, err := Deploy(tt.installPath, &tt.artifact, &tt.use)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %s", tt.rule, err, tt.err)
			continue
		}
		if err == nil && (target != tt.target || cmp.Diff(tt.want, *a) != "") {
			t.Errorf("%s: %s, want %s (-want +got):\n%s", tt.rule, target, tt.target, cmp.Diff(tt.want, *a))
		}
	}
}
