case "$1" in
remove) leave ;;
esac
