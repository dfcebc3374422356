/* python.exe: Python's own main function, in the DLL beside it. */
#include <windows.h>

typedef int (*Main)(int, wchar_t **);

int wmain(int argc, wchar_t **argv)
{
    HMODULE library = LoadLibraryW(PYTHON_DLL);
    Main run = library ? (Main)(void *)GetProcAddress(library, "Py_Main") : NULL;
    return run ? run(argc, argv) : 100;
}
