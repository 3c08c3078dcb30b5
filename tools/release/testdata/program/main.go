// Program stands for the product's programs in tests of the release: it is small, and uses a module.
package main

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

func main() {
	text, err := yaml.Marshal("a program")
	fmt.Println(string(text), err)
}
