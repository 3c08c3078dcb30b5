// Package oci writes container images of one layer as archives of the OCI image layout: podman, skopeo and "ctr images
// import" read them. It needs no daemon and no registry. The same files give the same bytes.
//
// Its command, ociimage, packs the executor's image where there is no container tool. The clusters of make test-cluster
// get all their images from here. The package uses one goroutine and blocks only on files.
package oci
