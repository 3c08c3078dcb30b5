// Package oci writes container images of one layer as archives of the OCI image layout: podman, skopeo and "ctr images
// import" read them. It needs no daemon and no registry. The same files give the same bytes.
//
// Its command, ociimage, packs the executor's image where there is no container tool; the clusters of make test-cluster have
// all their images from here. One goroutine; it blocks on nothing but files.
package oci
