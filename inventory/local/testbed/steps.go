package testbed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"patchbay/inventory/local/image"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

const (
	maxSteps     = 256
	maxStepBytes = 2 << 20
)

const stepsFile = "setup.json"

// parseSteps parses the attribute "setup". The error is for experimenters. Its kind is Unsupported
// for a step that no node of this version can do.
func parseSteps(items *[]string) ([]setup.Step, error) {
	if items == nil {
		return nil, nil
	}
	if len(*items) > maxSteps {
		return nil, refusalf(provider.Failed, "the setup has %d steps, at most %d are allowed", len(*items), maxSteps)
	}
	size := 0
	var all []setup.Step
	for i, item := range *items {
		s, err := setup.ParseStep(item)
		if err == nil && s.Stage > maxStage {
			err = fmt.Errorf("the stage %d is above %d", s.Stage, maxStage)
		}
		if err != nil {
			kind := provider.Failed
			if setup.IsUnsupported(err) {
				kind = provider.Unsupported
			}
			return nil, refusalf(kind, "step %d of the setup%s is refused: %v", i+1, stepLabel(item), err)
		}
		if size += len(s.URL) + len(s.InstallPath) + len(s.FileType) + len(s.Command); !s.IsPlain() {
			size += len(item)
		}
		if size > maxStepBytes {
			return nil, refusalf(provider.Failed, "the setup has more than %d bytes; download large files with an install", maxStepBytes)
		}
		all = append(all, s)
	}
	return all, nil
}

// stepLabel returns the name of a step in parentheses, if the item has one.
func stepLabel(item string) string {
	var step struct{ Step string }
	if json.Unmarshal([]byte(item), &step) != nil || step.Step == "" {
		return ""
	}
	return fmt.Sprintf(" (%.80q)", step.Step)
}

// checkCloudInit refuses user data for an image that cannot use them.
func (t *Testbed) checkCloudInit(steps []setup.Step, imageName string) error {
	i := slices.IndexFunc(steps, func(s setup.Step) bool { return s.Kind == setup.UserData })
	if i < 0 {
		return nil
	}
	usr := "/usr"
	if imageName != image.Host {
		_, files, err := t.images.Find(t.ctx, imageName)
		if err != nil {
			return fmt.Errorf("cannot look for cloud-init in the image %s: %w", imageName, err)
		}
		if usr = files.Usr; usr == "" {
			usr = filepath.Join(files.Root, "usr")
		}
	}
	for _, folder := range []string{"bin", "sbin"} {
		if _, err := os.Lstat(filepath.Join(usr, folder, "cloud-init")); err == nil {
			return nil
		}
	}
	return refusalf(provider.Unsupported, "step %d of the setup has user data, and the image %s has no cloud-init to use them; execute a script instead, or choose another image", i+1, imageName)
}

func (nc *nodeController) checkSameSteps(items *[]string) error {
	if items == nil {
		return nil
	}
	steps, err := parseSteps(items)
	if err != nil {
		return err
	}
	kept, err := nc.readSteps()
	if err == nil && !reflect.DeepEqual(steps, kept) {
		err = refusalf(provider.Failed, "the setup of a node cannot be changed; remove the node first")
	}
	return err
}

func (nc *nodeController) readSteps() (steps []setup.Step, err error) {
	if nc.steps != nil {
		err = readJSON(nc.dir(), stepsFile, &steps)
	}
	return steps, err
}
