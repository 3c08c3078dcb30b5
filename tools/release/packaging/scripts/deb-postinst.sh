case "$1" in
configure) if [ -n "$2" ]; then installed OLD; else installed NEW; fi ;;
esac
